// SPDX-License-Identifier: Apache-2.0
// Tables and figures of found plans.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "triplepoint/base/text.h"

#include "triplepoint/search/plan_parts.h"

namespace triplepoint::search {
namespace {

/// Colours of Term, in its order.
constexpr std::array<const char*, term_count> styles = {
    "k-compute",  "recomputed", "t-communication", "k-other", "capped",
    "k-sendrecv", "t-wait",     "k-reducescatter", "s4",      "t-next"};

std::string why_not_first(const Finalist& plan, const Finalist& first, double probability,
                          Goal goal) {
  if (goal == Goal::throughput && metrics::is_tie(probability)) return "tie";
  return behind_text(plan, first, goal);
}

/// Decimals of kJ that give the least energy two digits, where three do.
int energy_digits(const std::vector<Finalist>& ranked) {
  int digits = 0;
  for (const Finalist& plan : ranked)
    for (int more = 1; more <= 3; ++more)
      if (plan.scope_energy / 1e3 < std::pow(10.0, 2 - more)) digits = std::max(digits, more);
  return digits;
}

answers::Bar terms_bar(const OtherPlan& other) {
  answers::Bar bar{.label = other.what, .hint = plan_text(other.plan)};
  if (other.missing > Bytes()) {
    bar.status = fmt::format("{} GiB short", significant(other.missing / unit::GiB));
    return bar;
  }
  for (size_t t = 0; t < term_count; ++t)
    bar.parts.push_back(
        {std::max(0.0, other.plan.terms[t]), styles[t],
         fmt::format("{}: {} s", name_of(static_cast<Term>(t)), significant(other.plan.terms[t]))});
  bar.text = significant(other.plan.time) + " s";
  if (other.missing_headroom > Bytes()) bar.text += " (too little memory free)";
  return bar;
}

}  // namespace

DataTable ranking_table(const PlanOutcome& outcome, const std::vector<Finalist>& plans) {
  constexpr std::pair<const char*, const char*> energies[] = {
      {"energy_j", "GPU kJ/step"}, {"node_energy_j", "node kJ"}, {"site_energy_j", "site kJ"}};
  const auto [energy_key, energy_title] = energies[as_size(outcome.asked.objective.scope)];
  DataTable table{.name = "plans", .title = "Best plans"};
  table.columns = {{"place", "#"},
                   {.key = "plan", .title = "plan", .whole = true},
                   {"step_time_s", "step s", 1, 3},
                   {.key = "probability_slower",
                    .title = "P(slower) %",
                    .scale = 0.01,
                    .digits = 0,
                    .optional = 4},
                   {.key = "tokens_per_second_per_gpu", .title = "tok/s/GPU", .optional = 6},
                   {.key = "mfu", .title = "MFU %", .scale = 0.01, .digits = 1, .optional = 5},
                   {.key = "memory_gib", .title = "GiB", .digits = 1, .optional = 3},
                   {.key = "power_mean_w", .title = "mean W", .optional = 1},
                   {.key = "power_peak_w", .title = "peak W", .optional = 7},
                   {.key = "temperature_peak_c", .title = "peak °C", .digits = 1, .optional = 1},
                   {.key = energy_key,
                    .title = energy_title,
                    .scale = 1e3,
                    .digits = energy_digits(plans),
                    .optional = 8},
                   {.key = "front", .title = "front", .optional = 9},
                   {.key = "kind", .title = "shown as", .optional = 1},
                   {.key = "why", .title = "why not first", .optional = 2}};
  const double gpus = as_real(outcome.asked.base.world_size());
  const Goal goal = outcome.asked.objective.goal;
  if (goal == Goal::cost || goal == Goal::edp)
    table.columns.push_back({"objective",
                             goal == Goal::cost ? outcome.rates.currency + " a step" : "J s a step",
                             1, 3});
  for (const Finalist& plan : plans) {
    const bool is_first = table.rows.empty();
    const double probability = is_first ? 0.5 : outcome.slower(plan, plans[0]);
    std::vector<DataCell> row = {
        static_cast<int64_t>(table.rows.size() + 1),
        plan_text(plan),
        plan.time,
        is_first ? DataCell(std::string()) : DataCell(probability),
        plan.tokens_per_second / gpus,
        plan.mfu,
        plan.candidate.memory / unit::GiB,
        plan.power_mean,
        plan.power_peak,
        plan.hottest,
        plan.scope_energy,
        std::string(plan.on_front ? "*" : ""),
        plan.kind,
        is_first ? std::string() : why_not_first(plan, plans[0], probability, goal)};
    if (table.columns.back().key == "objective") row.emplace_back(plan.value);
    table.add(std::move(row));
  }
  return table;
}

/// Every plan that is not the first, by what it differs in.
DataTable others_table(const PlanOutcome& outcome) {
  const Finalist& first = outcome.first();
  const Goal goal = outcome.asked.objective.goal;
  DataTable table = text_table({{"instead of plan 1", Align::left},
                                {"plan", Align::left},
                                {"step (s)"},
                                {"against plan 1"},
                                {"memory (GiB)"},
                                {"why not", Align::left}});
  table.title = outcome.own ? "Your job, and plan 1 with one choice made differently"
                            : "Plan 1 with one choice made differently";
  const auto add = [&](const OtherPlan& other, const std::string& why) {
    if (!other.problem.empty()) return table.add({other.what, "–", "–", "–", "–", why});
    table.add({other.what, plan_text(other.plan),
               other.missing > Bytes() ? "–" : significant(other.plan.time, 4),
               against(other, first),
               fmt::format("{:.1f}", other.plan.candidate.memory / unit::GiB), why});
  };
  if (outcome.own) add(*outcome.own, why_not(*outcome.own, first, goal));
  for (const OtherPlan& other : outcome.others)
    add(other, why_not(other, first, goal));
  for (const Finalist& plan : outcome.ranking.refused)
    add({.what = "beyond a limit", .plan = plan}, plan.refused);
  return table;
}

DataTable explained_table(const PlanOutcome& outcome) {
  const Finalist &a = outcome.explained[0], &b = outcome.explained[1];
  DataTable table{.name = "explain",
                  .title = fmt::format("A: {} - B: {}", plan_text(a), plan_text(b))};
  table.columns = {{"term", "seconds of a step, on the stage that works longest"},
                   {"a_s", "A", 1, 3},
                   {"b_s", "B", 1, 3},
                   {"difference_s", "B - A", 1, 3},
                   {"difference_of_step", "of A's step %", 0.01, 2}};
  std::vector<size_t> order(term_count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t term) { return std::abs(b.terms[term] - a.terms[term]); });
  const auto add = [&](std::string name, double of_a, double of_b) {
    table.add({std::move(name), of_a, of_b, of_b - of_a, (of_b - of_a) / a.time});
  };
  for (const size_t term : order)
    add(std::string(name_of(static_cast<Term>(term))), a.terms[term], b.terms[term]);
  add("step", a.time, b.time);
  return table;
}

answers::Figure choices_figure(const PlanOutcome& outcome) {
  answers::ScatterChart chart{
      .title = "Speed against energy: " + plan_text(outcome.first()) + " is first",
      .x_unit = plan_energy_text(outcome) + " (J/token)",
      .y_unit = "throughput (tokens/s)",
      .colour_unit = "hottest die (°C)"};
  DataTable table = text_table({{"plan", Align::left},
                                {"tokens/s"},
                                {"J/token"},
                                {"hottest die (°C)"},
                                {"on the front of four"}});
  const auto add = [&](const Finalist& plan, const std::string& name, const std::string& label,
                       const std::string& job = "") {
    if (plan.scope_energy <= 0 || plan.tokens_per_second <= 0) return;
    const double joules = joules_per_token(plan);
    const std::string speed = significant(plan.tokens_per_second, 4);
    chart.points.push_back(
        {.x = joules,
         .y = plan.tokens_per_second,
         .colour = plan.hottest > 0 ? std::optional(plan.hottest) : std::nullopt,
         .job = job,
         .hint = fmt::format("{}: {} tokens/s at {} J/token, hottest die {} °C", name, speed,
                             significant(joules), significant(plan.hottest)),
         .label = label});
    table.add(
        {name, speed, significant(joules), significant(plan.hottest), plan.on_front ? "yes" : ""});
  };
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const std::string number = fmt::format("plan {}", i + 1);
    add(ranked[i], plan_text(ranked[i]), i == 0 ? number : "", number);
  }
  for (const OtherPlan& other : outcome.others)
    if (other.problem.empty()) add(other.plan, other.what, "");
  if (outcome.own) add(outcome.own->plan, your_job, your_job);
  for (answers::Point& point : chart.points)
    point.on_front = std::ranges::none_of(chart.points, [&](const answers::Point& p) {
      return p.x <= point.x && p.y >= point.y && (p.x < point.x || p.y > point.y);
    });
  return {.id = "choices",
          .title = chart.title,
          .note = "Better is up and to the left. Ringed: no plan is faster without more energy.",
          .chart = std::move(chart),
          .table = std::move(table)};
}

answers::Figure terms_figure(const PlanOutcome& outcome) {
  answers::BarChart chart{.title = "Where a step of each plan goes",
                          .unit = "seconds of a step, on the stage that works longest"};
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 0; i < std::min(outcome.asked.top, ranked.size()); ++i)
    chart.bars.push_back(terms_bar({fmt::format("plan {}", i + 1), ranked[i], {}}));
  const auto add = [&](const OtherPlan& other, bool begins_group) {
    chart.bars.push_back(terms_bar(other));
    chart.bars.back().begins_group = begins_group;
  };
  if (outcome.own) add(*outcome.own, true);
  for (const OtherPlan& other : outcome.others)
    if (other.problem.empty()) add(other, &other == &outcome.others.front());
  answers::Figure figure{.id = "terms",
                         .title = chart.title,
                         .note = "Below the best plans: plan 1 with one choice made differently.",
                         .chart = std::move(chart)};
  for (size_t t = 0; t < term_count; ++t)
    figure.legend.push_back({styles[t], std::string(name_of(static_cast<Term>(t)))});
  return figure;
}

}  // namespace triplepoint::search
