// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/figures/trace_figures.h"

namespace triplepoint::report {
namespace {

constexpr double label = 58, width = 640, row = 16, gap = 4, foot = 30;
constexpr std::size_t most_stages = 32, most_passes = 4000;

/// One pass of a stage: microseconds from the beginning of what is drawn.
struct Pass {
  double begin = 0, end = 0;
  std::string_view style;
  int32_t microbatch = -1;
};

std::string_view style_of(std::string_view pattern) {
  if (pattern.find("forward") != pattern.npos) return "p-forward";
  return pattern.find("weight") != pattern.npos ? "p-weight" : "p-backward";
}

/// Of the first rank that works on a stage.
std::map<int32_t, std::vector<Pass>> passes_of(const run::Timeline& timeline) {
  std::map<int32_t, int32_t> rank_of;
  std::map<int32_t, std::vector<Pass>> stages;
  for (const run::PatternInstance& instance : timeline.instances) {
    if (instance.stage < 0) continue;
    if (rank_of.try_emplace(instance.stage, instance.rank).first->second != instance.rank) continue;
    const run::Pattern& pattern = timeline.patterns[static_cast<std::size_t>(instance.pattern)];
    const double begin = static_cast<double>(instance.begin.nanoseconds()) * 1e-9;
    stages[instance.stage].push_back(
        {begin, begin + pattern.length() / unit::s, style_of(pattern.name), instance.microbatch});
  }
  return stages;
}

std::string bar_of(const Pass& pass, double from, double scale, double y) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"/>", pass.style,
      label + (pass.begin - from) * scale, y, std::max(0.2, (pass.end - pass.begin) * scale - 0.3),
      row);
}

}  // namespace

Figure pipeline_figure(const run::Run& run) {
  const auto stages = passes_of(run.timeline);
  double from = 1e300, to = 0;
  std::size_t passes = 0;
  for (const auto& [stage, list] : stages)
    for (const Pass& pass : list) {
      from = std::min(from, pass.begin);
      to = std::max(to, pass.end);
      ++passes;
    }
  if (stages.size() < 2 || stages.size() > most_stages || passes > most_passes || to <= from)
    return {};
  const double scale = (width - label - 8) / (to - from);
  DataTable table{{"stage", "passes", "busy (s)", "busy share"}, {}};
  std::string inner;
  double y = 2;
  for (const auto& [stage, list] : stages) {
    double busy = 0;
    inner += fmt::format("<text class=\"label\" x=\"{}\" y=\"{:.1f}\">stage {}</text>", label - 6,
                         y + row - 4, stage);
    for (const Pass& pass : list) {
      busy += pass.end - pass.begin;
      inner += bar_of(pass, from, scale, y);
    }
    table.add({std::to_string(stage), std::to_string(list.size()), significant(busy),
               percent(busy / (to - from))});
    y += row + gap;
  }
  const Axis axis = axis_from_zero(to - from);
  for (const double tick : axis.ticks)
    if (tick <= to - from)
      inner += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                           label + tick * scale, y + 11, axis.tick_text(tick));
  inner += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{:.1f}\">time in the step (s)</text>",
                       label + (width - label) / 2, y + 26);
  const std::string title = "Passes of each pipeline stage in one step";
  return {"pipeline",
          title,
          "One rank of each stage; between passes it waits, or sends and receives.",
          html_legend({{"p-forward", "forward"},
                       {"p-backward", "backward"},
                       {"p-weight", "weight gradients"}}) +
              svg_begin(width, y + foot, title) + inner + "</svg>",
          std::move(table),
          true};
}

}  // namespace triplepoint::report
