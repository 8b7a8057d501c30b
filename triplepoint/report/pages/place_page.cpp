// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/charts/ratio_charts.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

using advise::Placement;
std::string signed_percent(double share) {
  return fmt::format("{}{:.2f} %", share < 0 ? "−" : "+", 100 * std::abs(share));
}

/// How much longer or shorter each placement's step is than the baseline's.
Figure steps_figure(const advise::PlaceResult& result) {
  const double step = result.placements.front().outcome.step_time;
  std::vector<DifferenceBar> bars;
  for (const Placement& placement : result.placements) {
    const bool is_shown = placement.kind != advise::PlacementKind::baseline &&
                          placement.outcome.fits && placement.same_as.empty();
    if (!is_shown) continue;
    const double share = placement.outcome.step_time / step - 1;
    const int judgement = std::abs(share) < 5e-5 ? 0 : share < 0 ? 1 : -1;
    bars.push_back({placement_name(placement), share, signed_percent(share), judgement, false});
  }
  return {"steps", "Step time against the baseline",
          "Of these very boards; the table has means over drawn machines.",
          html_legend(difference_legend()) +
              difference_chart_svg("Step time", "step time against the baseline", bars),
          shown_table(placements_table(result))};
}

std::pair<double, double> range_of(const metrics::Metrics& a, const metrics::Metrics& b) {
  double low = 1e9, high = -1e9;
  for (const metrics::Metrics* metrics : {&a, &b})
    for (const double value : metrics->temperature_per_gpu_c) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  return {low, high};
}

/// Both pictures with one scale, so that a colour is the same temperature in both.
std::vector<Figure> chassis_figures(const PlacedRun& before, const PlacedRun& after,
                                    const std::string& name) {
  const metrics::Metrics first = metrics::measure(before.run), last = metrics::measure(after.run);
  const auto range = range_of(first, last);
  std::vector<Figure> figures = {
      chassis_figure(before.run, first,
                     {.id = "before",
                      .title = "Before: stages on their slots, and how warm they are",
                      .slot_words = before.stage_of_device,
                      .range = range}),
      chassis_figure(after.run, last,
                     {.id = "after",
                      .title = "After: the " + name + " placement",
                      .slot_words = after.stage_of_device,
                      .range = range})};
  std::erase_if(figures, [](const Figure& figure) { return figure.drawing.empty(); });
  return figures;
}

std::vector<Tile> tiles_of(const advise::PlaceResult& result) {
  const advise::PlacementOutcome& base = result.placements.front().outcome;
  const Placement& best = result.best();
  const advise::PlacementOutcome& now = best.outcome;
  std::vector<Tile> tiles = {
      {"step", significant(now.step_time, 4) + " s",
       fmt::format("{} placement; before {} s", placement_name(best),
                   significant(base.step_time, 4))},
      {"speed", signed_percent(base.step_time / now.step_time - 1), "against the baseline"},
      {"hottest die", significant(now.peak_c) + " °C",
       fmt::format("before {} °C", significant(base.peak_c))},
      {"hot less cool GPUs", significant(now.gap) + " K",
       fmt::format("before {} K", significant(base.gap))},
      {"efficiency", significant(now.samples_per_s_mj),
       fmt::format("samples/(s MJ); before {}", significant(base.samples_per_s_mj))}};
  if (best.over.machines > 0)
    tiles.insert(tiles.begin() + 2,
                 {"on average", signed_percent(best.over.mean),
                  fmt::format("speed, over {} drawn machines", best.over.machines)});
  return tiles;
}

std::vector<std::string> sentences_of(const advise::GroupedMachine& seen,
                                      const advise::PlaceResult& result) {
  std::vector<std::string> sentences = {gains_text(result), grouping_text(seen),
                                        search_text(result)};
  for (const std::string& note : result.notes)
    sentences.push_back(note + ".");
  std::erase_if(sentences, [](const std::string& text) { return text.empty(); });
  return sentences;
}

std::string launch_section(const spec::Job& job) {
  std::string lines;
  for (const std::string& line : advise::launch_lines(job))
    lines += escape(line) + "\n";
  return html_section("launch", "To launch it", "<pre>" + lines + "</pre>");
}

}  // namespace

std::string place_page(const std::string& title, const advise::GroupedMachine& seen,
                       const advise::PlaceResult& result, const PlacedRun& before,
                       const PlacedRun& after) {
  const Placement& best = result.best();
  std::string body = html_header(
      "place", title,
      escape(fmt::format(
          "Which stages on which slots, as warm as {}. Every placement is simulated "
          "to thermal steady state on the same boards.",
          seen.source == "simulated" ? "the simulator has them" : "read " + seen.source)));
  if (best.outcome.fits)
    body += html_tiles(tiles_of(result)) +
            html_overview(steps_figure(result), sentences_of(seen, result));
  body += html_section("chassis", "On the chassis",
                       html_figures(chassis_figures(before, after, placement_name(best))));
  const DataTable placements = shown_table(placements_table(result)),
                  groups = shown_table(groups_table(seen));
  body += html_section("placements", "Placements",
                       html_table(placements, "What each placement reaches, at steady state") +
                           html_table(groups, "GPUs by temperature"));
  if (result.recommended > 0) body += launch_section(best.job);
  return html_page("Placements for " + title, body, Json::object());
}

}  // namespace triplepoint::report
