// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/pareto.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/search/plan_tables.h"

namespace triplepoint::report {
namespace {

using search::Finalist;
using search::OtherPlan;
using search::Term;

constexpr const char* your_job = "your job";

/// Colours of search::Term, in its order.
constexpr std::array<const char*, search::term_count> styles = {
    "k-compute",  "recomputed", "t-communication", "k-other", "capped",
    "k-sendrecv", "t-wait",     "k-reducescatter", "s4",      "t-next"};

std::string name_of_plan(const Finalist& plan) {
  return search::plan_text(plan);
}

double tokens_of_step(const PlanPageContent& content) {
  const Finalist& first = content.ranking.ranked.front();
  return first.tokens_per_second * first.time;
}

std::string against(const OtherPlan& other, const Finalist& first) {
  if (other.missing > Bytes()) return "–";
  const double longer = other.plan.time / first.time - 1;
  return fmt::format("{}{}", longer >= 0 ? "+" : "−", percent(std::abs(longer)));
}

// ---- speed against energy

Point point_of(const PlanPageContent& content, const Finalist& plan, const std::string& name) {
  const double joules = plan.energy / tokens_of_step(content);
  return {.x = joules,
          .y = plan.tokens_per_second,
          .colour = plan.hottest > 0 ? std::optional(plan.hottest) : std::nullopt,
          .job = "",
          .hint = fmt::format("{}: {} tokens/s at {} J/token, hottest die {} °C", name,
                              significant(plan.tokens_per_second, 4), significant(joules),
                              significant(plan.hottest)),
          .label = ""};
}

Figure choices_figure(const PlanPageContent& content) {
  ScatterChart chart{.title = "Speed against energy: " +
                              name_of_plan(content.ranking.ranked.front()) + " is first",
                     .x_unit = "energy (J/token)",
                     .y_unit = "throughput (tokens/s)",
                     .colour_unit = "hottest die (°C)",
                     .points = {}};
  DataTable table{{"plan", "tokens/s", "J/token", "hottest die (°C)", "on the front of four"}, {}};
  const auto add = [&](const Finalist& plan, const std::string& name, const std::string& label) {
    if (plan.energy <= 0 || plan.tokens_per_second <= 0) return;
    Point point = point_of(content, plan, name);
    point.label = label;
    table.add({name, significant(point.y, 4), significant(point.x), significant(plan.hottest),
               plan.on_front ? "yes" : ""});
    chart.points.push_back(std::move(point));
  };
  for (const Finalist& plan : content.ranking.ranked)
    add(plan, name_of_plan(plan), &plan == &content.ranking.ranked.front() ? "plan 1" : "");
  for (const OtherPlan& other : content.others)
    add(other.plan, other.what, "");
  if (content.own) add(content.own->plan, your_job, your_job);
  for (Point& point : chart.points)
    point.on_front = std::none_of(chart.points.begin(), chart.points.end(), [&](const Point& p) {
      return p.x <= point.x && p.y >= point.y && (p.x < point.x || p.y > point.y);
    });
  return {"choices", chart.title,
          "Better is up and to the left. Ringed: no plan is faster without more energy.",
          scatter_chart_svg(chart), std::move(table)};
}

// ---- where a step goes

Bar terms_bar(const Finalist& plan, const std::string& label) {
  Bar bar{.label = label, .parts = {}, .hint = name_of_plan(plan)};
  for (std::size_t t = 0; t < search::term_count; ++t)
    bar.parts.push_back(
        {std::max(0.0, plan.terms[t]), styles[t],
         fmt::format("{}: {} s", name_of(static_cast<Term>(t)), significant(plan.terms[t]))});
  bar.text = significant(plan.time) + " s";
  return bar;
}

Bar other_bar(const OtherPlan& other) {
  Bar bar = terms_bar(other.plan, other.what);
  if (other.missing <= Bytes()) return bar;
  bar.parts.clear();
  bar.status = fmt::format("{} GiB short", significant(other.missing / unit::GiB));
  return bar;
}

Figure terms_figure(const PlanPageContent& content) {
  BarChart chart{.title = "Where a step of each plan goes",
                 .unit = "seconds of a step, on the stage that works longest",
                 .bars = {}};
  for (std::size_t i = 0; i < content.best.rows.size(); ++i)
    chart.bars.push_back(terms_bar(content.ranking.ranked[i], fmt::format("plan {}", i + 1)));
  std::vector<const OtherPlan*> others;
  if (content.own) others.push_back(&*content.own);
  for (const OtherPlan& other : content.others)
    others.push_back(&other);
  for (const OtherPlan* other : others) {
    chart.bars.push_back(other_bar(*other));
    chart.bars.back().begins_group = other == others.front() || (content.own && other == others[1]);
  }
  std::vector<LegendEntry> legend;
  for (std::size_t t = 0; t < search::term_count; ++t)
    legend.push_back({styles[t], std::string(name_of(static_cast<Term>(t)))});
  return {"terms",
          chart.title,
          "Below the best plans: your job, and plan 1 with one choice made differently.",
          html_legend(legend) + bar_chart_svg(chart),
          {}};
}

// ---- why not another

DataTable others_table(const PlanPageContent& content) {
  const Finalist& first = content.ranking.ranked.front();
  DataTable table{
      {"instead of plan 1", "plan", "step (s)", "against plan 1", "memory (GiB)", "why not"}, {}};
  const auto add = [&](const OtherPlan& other) {
    table.add({other.what, name_of_plan(other.plan), significant(other.plan.time, 4),
               against(other, first), fixed(other.plan.candidate.memory / unit::GiB, 1),
               search::why_not(other, first)});
  };
  if (content.own) add(*content.own);
  for (const OtherPlan& other : content.others)
    add(other);
  for (const Finalist& plan : content.ranking.refused)
    table.add({"beyond a limit", name_of_plan(plan), significant(plan.time, 4),
               against({.what = "", .plan = plan, .missing = {}}, first),
               fixed(plan.candidate.memory / unit::GiB, 1), plan.refused});
  return table;
}

/// How many plans were looked at is said last.
std::vector<std::string> sentences_of(const PlanPageContent& content) {
  std::vector<std::string> sentences = content.sentences;
  if (!sentences.empty()) std::rotate(sentences.begin(), sentences.begin() + 1, sentences.end());
  return sentences;
}

std::vector<Tile> tiles_of(const PlanPageContent& content) {
  const Finalist& first = content.ranking.ranked.front();
  const double gpus = static_cast<double>(content.base.world_size());
  std::vector<Tile> tiles = {
      {"step of plan 1", significant(first.time) + " s", name_of_plan(first)},
      {"speed", significant(first.tokens_per_second / gpus) + " tokens/s",
       "a GPU; MFU " + percent(first.mfu)},
      {"energy", significant(first.energy / tokens_of_step(content)) + " J/token",
       significant(first.power_mean) + " W a GPU on average"},
      {"hottest die", significant(first.hottest) + " °C",
       "peak power " + significant(first.power_peak, 4) + " W"},
      {"memory", significant(first.candidate.memory / unit::GiB) + " GiB",
       content.base.cluster.gpu.memory
           ? fmt::format("of {} GiB", significant(*content.base.cluster.gpu.memory / unit::GiB))
           : ""}};
  if (content.own)
    tiles.push_back({your_job,
                     content.own->missing > Bytes() ? "does not fit" : against(*content.own, first),
                     content.own->missing > Bytes() ? search::why_not(*content.own, first)
                                                    : "step time against plan 1"});
  return tiles;
}

}  // namespace

std::string plan_page(const PlanPageContent& content) {
  const std::string title = fmt::format("{}, batch {}", answers::group_label(content.base),
                                        content.base.plan.global_batch_size);
  const std::string limits = content.limits.empty()
                                 ? "no limit but memory was set"
                                 : fmt::format("limits kept: {}", fmt::join(content.limits, ", "));
  std::string body =
      html_header("plan", title,
                  escape(fmt::format("Simulated to thermal steady state; objective {}; {}.",
                                     name_of(content.goal), limits)));
  body += html_tiles(tiles_of(content)) +
          html_figures({choices_figure(content), terms_figure(content)});
  body += html_section("findings", "Findings", html_findings(sentences_of(content)));
  body += html_section("best", "Best plans",
                       html_table(shown_table(content.best),
                                  "The best plan of each layout, at thermal steady state"));
  body += html_section(
      "why-not", "Why not another",
      html_table(others_table(content), "Your job, and plan 1 with one choice made differently"));
  return html_page("Plans for " + title, body, Json::object());
}

}  // namespace triplepoint::report
