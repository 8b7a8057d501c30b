// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "triplepoint/base/lists.h"

#include "triplepoint/report/charts/charts.h"

namespace triplepoint::report {
namespace {

constexpr double width = 460, row_height = 19, axis_height = 36, top = 4;
constexpr double character = 6.9, band_height = 13, line_height = 3, text_room = 52;
constexpr double ticks[] = {0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4};

struct Layout {
  double left = 0, plot = 0, bottom = 0, reach = 1;  // reach: natural logarithm of the axis' end
  double x(double ratio) const {
    return left + plot * (0.5 + 0.5 * std::clamp(std::log(ratio) / reach, -1.0, 1.0));
  }
};

Layout lay_out(const RangeChart& chart) {
  Layout layout;
  std::size_t longest = 4;
  double farthest = std::log(1.5);
  for (const RangeRow& row : chart.rows) {
    longest = std::max(longest, row.label.size());
    for (const double ratio : {row.low, row.high})
      farthest = std::max(farthest, std::abs(std::log(ratio)));
    if (row.band)
      farthest = std::max(
          {farthest, std::abs(std::log(row.band->low)), std::abs(std::log(row.band->high))});
  }
  layout.left = std::min(190.0, static_cast<double>(longest) * character + 8);
  layout.plot = width - layout.left - text_room;
  layout.bottom = top + row_height * static_cast<double>(chart.rows.size());
  layout.reach = std::min(farthest, std::log(4.0)) * 1.04;
  return layout;
}

std::string grid(const RangeChart& chart, const Layout& layout) {
  std::string svg;
  double last = -1e9;
  for (const double tick : ticks) {
    const double x = layout.x(tick);
    const bool has_room = x - last > 34;
    if (std::abs(std::log(tick)) > layout.reach || (!has_room && tick != 1)) continue;
    last = x;
    svg += fmt::format("<path class=\"{}\" d=\"M{:.1f} 0V{:.1f}\"/>", tick == 1 ? "peak" : "grid",
                       x, layout.bottom);
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{:g}</text>", x,
                       layout.bottom + 14, tick);
  }
  return svg + fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                           layout.left + layout.plot / 2, layout.bottom + 30, escape(chart.unit));
}

std::string bar(const char* style, double from, double to, double y, double height) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\"/>",
      style, from, y - height / 2, std::max(1.0, to - from), height);
}

std::string row_line(const RangeRow& row, const Layout& layout, double y) {
  std::string svg = "<g>";
  if (!row.hint.empty()) svg += "<title>" + escape(row.hint) + "</title>";
  svg += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", layout.left - 6,
                     y + 4, escape(row.label));
  if (row.band)
    svg += bar("expected", layout.x(row.band->low), layout.x(row.band->high), y, band_height);
  svg += bar("s0", layout.x(row.low), layout.x(row.high), y, line_height);
  svg += fmt::format("<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>",
                     layout.x(row.middle), y);
  return svg + fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>",
                           layout.left + layout.plot + 6, y + 4, escape(row.text));
}

// ---- differences

constexpr double bar_height = 13, group_gap = 7, difference_axis_height = 30, difference_room = 62;

const char* style_of(int judgement) {
  return judgement > 0 ? "better" : judgement < 0 ? "worse" : "neither";
}

/// The scale reaches to a round share on both sides.
double reach_of(const std::vector<DifferenceBar>& bars) {
  const double most =
      most_of(bars, [](const DifferenceBar& bar) { return std::abs(bar.relative); });
  for (const double reach : {0.02, 0.05, 0.1, 0.2, 0.5})
    if (most <= reach) return reach;
  return 1;
}

struct DifferenceLayout {
  double left = 0, middle = 0, half = 0, height = 0, reach = 1;
  double x(double relative) const {
    return middle + half * std::clamp(relative / reach, -1.0, 1.0);
  }
};

DifferenceLayout lay_out_differences(const std::vector<DifferenceBar>& bars) {
  DifferenceLayout layout;
  std::size_t longest = 4;
  double rows = 4;
  for (const DifferenceBar& bar : bars) {
    longest = std::max(longest, bar.label.size());
    rows += row_height + (bar.begins_group ? group_gap : 0);
  }
  layout.left = std::min(200.0, static_cast<double>(longest) * character + 8);
  layout.half = (width - layout.left - 2 * difference_room) / 2;
  layout.middle = layout.left + difference_room + layout.half;
  layout.height = rows + difference_axis_height;
  layout.reach = reach_of(bars);
  return layout;
}

std::string difference_grid(const std::string& unit, const DifferenceLayout& layout) {
  const double bottom = layout.height - difference_axis_height;
  std::string svg;
  for (const double share : {-1.0, 0.0, 1.0}) {
    const double value = share * layout.reach, x = layout.x(value);
    svg += fmt::format("<path class=\"{}\" d=\"M{:.1f} 0V{:.1f}\"/>", share == 0 ? "peak" : "grid",
                       x, bottom);
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}{} %</text>", x,
                       bottom + 13, value > 0 ? "+" : "", fmt::format("{:g}", 100 * value));
  }
  return svg + fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                           layout.middle, bottom + 26, escape(unit));
}

std::string bar_line(const DifferenceBar& bar, const DifferenceLayout& layout, double y) {
  const double end = layout.x(bar.relative);
  const double begin = std::min(end, layout.middle);
  const bool is_left = bar.relative < 0;
  return fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", layout.left - 6,
                     y + bar_height - 2, escape(bar.label)) +
         fmt::format(
             "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>",
             style_of(bar.judgement), begin, y, std::abs(end - layout.middle), bar_height) +
         fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>",
                     is_left ? end - 5 : end + 5, y + bar_height - 2,
                     is_left ? " text-anchor=\"end\"" : "", escape(bar.text));
}

}  // namespace

std::string range_chart_svg(const RangeChart& chart) {
  const Layout layout = lay_out(chart);
  std::string svg = svg_begin(width, layout.bottom + axis_height, chart.title);
  svg += grid(chart, layout);
  double y = top + row_height / 2;
  for (const RangeRow& row : chart.rows) {
    svg += row_line(row, layout, y);
    y += row_height;
  }
  return svg + "</svg>";
}

std::vector<LegendEntry> difference_legend() {
  return {{"better", "better"}, {"worse", "worse"}, {"neither", "neither"}};
}

std::string difference_chart_svg(const std::string& title, const std::string& unit,
                                 const std::vector<DifferenceBar>& bars) {
  const DifferenceLayout layout = lay_out_differences(bars);
  std::string svg = svg_begin(width, layout.height, title);
  svg += difference_grid(unit, layout);
  double y = 4;
  for (const DifferenceBar& bar : bars) {
    if (bar.begins_group && &bar != &bars.front()) y += group_gap;
    svg += bar_line(bar, layout, y);
    y += row_height;
  }
  return svg + "</svg>";
}

}  // namespace triplepoint::report
