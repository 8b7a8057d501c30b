// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

using advise::Decision;
using advise::MoveKind;
using advise::SteeredScenario;
using advise::SteerOutcome;
using advise::SteerPoint;

constexpr double width = 400, height = 190;
constexpr double left = 50, right = 8, top = 20, bottom = 36;

/// One quantity over time, of both sides.
struct Quantity {
  const char *id, *title, *unit;
  std::function<std::optional<double>(const SteerPoint&)> value;
};

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {
      {"step", "Step time", "s", [](const SteerPoint& p) { return p.step_time_s; }},
      {"hottest", "Hottest GPU", "°C",
       [](const SteerPoint& p) { return std::optional(p.hottest_c); }},
      {"clock", "Slowest GPU's clock", "MHz",
       [](const SteerPoint& p) { return std::optional(p.lowest_clock_mhz); }},
      {"power", "Power of all GPUs", "kW",
       [](const SteerPoint& p) { return std::optional(p.power_w / 1e3); }}};
  return all;
}

struct Frame {
  Axis axis;
  double minutes = 1;
  double x(Seconds time) const {
    return left + (width - left - right) * (time / unit::min) / minutes;
  }
  double y(double value) const { return top + (height - top - bottom) * (1 - axis.share(value)); }
};

Frame frame_of(const SteerOutcome& outcome, const Quantity& quantity) {
  constexpr double unseen = std::numeric_limits<double>::infinity();
  double low = unseen, high = -unseen, minutes = 1e-3;
  for (const auto* points : {&outcome.fixed_points, &outcome.steered_points})
    for (const SteerPoint& point : *points) {
      minutes = std::max(minutes, point.time / unit::min);
      if (const auto value = quantity.value(point)) {
        low = std::min(low, *value);
        high = std::max(high, *value);
      }
    }
  if (!(low <= high)) low = 0, high = 1;
  const double room = std::max(0.02 * high, 0.1 * (high - low));
  return {axis_between(low - room, high + room, 5), minutes};
}

std::string curve(const std::vector<SteerPoint>& points, const Quantity& quantity,
                  const Frame& frame, const char* style) {
  std::string path;
  for (const SteerPoint& point : points)
    if (const auto value = quantity.value(point))
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.x(point.time),
                          frame.y(*value));
  return fmt::format("<path class=\"line {}\" d=\"{}\"/>", style, path);
}

std::string grid(const Frame& frame, const Quantity& quantity) {
  std::string svg;
  for (const double tick : frame.axis.ticks)
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"label\" x=\"{}\" "
        "y=\"{:.1f}\">{}</text>",
        left, frame.y(tick), width - right, left - 6, frame.y(tick) + 4,
        frame.axis.tick_text(tick));
  for (const double tick : axis_from_zero(frame.minutes).ticks)
    if (tick <= frame.minutes)
      svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\">{:g}</text>",
                         frame.x(tick * unit::min), height - bottom + 15, tick);
  svg += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{}\">time (min)</text>",
                     (left + width - right) / 2, height - 6);
  return svg + fmt::format("<text class=\"unit start\" x=\"4\" y=\"11\">{}</text>", quantity.unit);
}

/// A numbered rule at every move.
std::string marks(const SteerOutcome& outcome, const Frame& frame) {
  std::string svg;
  int number = 0;
  for (const Decision& decision : outcome.decisions) {
    if (decision.kind == MoveKind::leave) continue;
    const double x = frame.x(decision.time);
    svg += fmt::format(
        "<path class=\"peak\" d=\"M{0:.1f} {1}V{2}\"><title>{3}</title></path><text class=\"tick\" "
        "x=\"{0:.1f}\" y=\"{4}\">{5}</text>",
        x, top, height - bottom, escape(decision.action), top - 4, ++number);
  }
  return svg;
}

DataTable points_table(const SteerOutcome& outcome, const Quantity& quantity) {
  const std::string unit_name = quantity.unit;
  DataTable table{
      {"time (min)", "without control (" + unit_name + ")", "with control (" + unit_name + ")"},
      {}};
  const std::size_t rows = std::max(outcome.fixed_points.size(), outcome.steered_points.size());
  const auto cell = [&](const std::vector<SteerPoint>& points, std::size_t i) {
    return i < points.size() ? significant(quantity.value(points[i]), 4) : "–";
  };
  for (std::size_t i = 0; i < rows; ++i) {
    const auto& from =
        i < outcome.fixed_points.size() ? outcome.fixed_points : outcome.steered_points;
    table.rows.push_back({significant(from[i].time / unit::min), cell(outcome.fixed_points, i),
                          cell(outcome.steered_points, i)});
  }
  return table;
}

Figure figure_of(const SteeredScenario& story, const Quantity& quantity) {
  const Frame frame = frame_of(story.outcome, quantity);
  const std::string title = fmt::format("{}, {}", quantity.title, story.name);
  std::string svg = svg_begin(width, height, title);
  svg += grid(frame, quantity) + marks(story.outcome, frame);
  svg += curve(story.outcome.fixed_points, quantity, frame, "s1");
  svg += curve(story.outcome.steered_points, quantity, frame, "s0") + "</svg>";
  return {fmt::format("{}-{}", story.name, quantity.id), title, "", svg,
          points_table(story.outcome, quantity)};
}

std::string decisions_table(const SteeredScenario& story) {
  DataTable table{{"time (min)", "mark", "what was seen", "what was done", "why"}, {}};
  int number = 0;
  for (const Decision& decision : story.outcome.decisions) {
    const bool moved = decision.kind != MoveKind::leave;
    table.rows.push_back({significant(decision.time / unit::min),
                          moved ? std::to_string(++number) : "", decision.seen, decision.action,
                          decision.reason});
  }
  if (table.rows.empty()) return "<p>No change was detected.</p>";
  return html_table(table, "Decisions, " + story.name);
}

std::string change_text(double ratio) {
  return fmt::format("{:+.2f} %", 100 * (ratio - 1));
}

std::string sentence_of(const SteeredScenario& story, search::Goal goal) {
  const SteerOutcome& o = story.outcome;
  const std::string name = story.name + ": ";
  if (o.moves == 0) {
    if (o.checked.empty()) return name + "no action; no alternative pays.";
    return name + fmt::format("no action. The best alternative, to {}, was simulated too: {}.",
                              o.checked.front().what, change_text(o.checked.front().ratio));
  }
  return name + fmt::format("{} move{}, {} restart{}: step time {}, energy of a step {}, {} {}.",
                            o.moves, o.moves == 1 ? "" : "s", o.restarts,
                            o.restarts == 1 ? "" : "s",
                            change_text(o.steered.step_time() / o.fixed.step_time()),
                            change_text(o.steered.joules_per_step() / o.fixed.joules_per_step()),
                            goal == search::Goal::edp ? "energy-delay" : search::name_of(goal),
                            change_text(o.ratio(goal)));
}

std::string overview(const std::vector<SteeredScenario>& stories) {
  DataTable table{{"scenario", "step, without control (s)", "with control (s)",
                   "energy of a step, without control (kJ)", "steered (kJ)", "energy-delay",
                   "moves", "restarts"},
                  {}};
  for (const SteeredScenario& story : stories) {
    const SteerOutcome& o = story.outcome;
    table.rows.push_back(
        {story.name, significant(o.fixed.step_time(), 4), significant(o.steered.step_time(), 4),
         significant(o.fixed.joules_per_step() / 1e3, 4),
         significant(o.steered.joules_per_step() / 1e3, 4), change_text(o.ratio(search::Goal::edp)),
         std::to_string(o.moves), std::to_string(o.restarts)});
  }
  return html_table(table, "Without and with the controller, costs of actions included");
}

std::string story_section(const SteeredScenario& story) {
  std::vector<Figure> figures;
  for (const Quantity& quantity : quantities())
    figures.push_back(figure_of(story, quantity));
  return html_section(story.name, story.name,
                      fmt::format("<p>{}. Both sides begin with {}.</p>", escape(story.about),
                                  escape(story.outcome.initial)) +
                          html_legend({{"s1", "without control"}, {"s0", "with control"}}) +
                          html_figures(figures) + decisions_table(story));
}

}  // namespace

std::string steer_page(const spec::Job& job, const std::vector<SteeredScenario>& stories,
                       search::Goal goal) {
  std::string body = html_header(
      "steering", job.name,
      escape(fmt::format("{} x {}, simulated. Every scenario is simulated twice on the same "
                         "boards: without and with the controller; what moves cost is in all "
                         "numbers.",
                         job.world_size(), job.cluster.gpu.name)));
  std::vector<std::string> sentences;
  for (const SteeredScenario& story : stories)
    sentences.push_back(sentence_of(story, goal));
  body += html_section("findings", "Findings", html_findings(sentences) + overview(stories));
  for (const SteeredScenario& story : stories)
    body += story_section(story);
  return html_page(job.name + ", steered", body, Json::object());
}

}  // namespace triplepoint::report
