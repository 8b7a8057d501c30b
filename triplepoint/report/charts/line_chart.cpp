// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/line_chart.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/axis.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

constexpr double width = 300, height = 230;
constexpr double left = 44, right = 8, top = 18, bottom = 40;
constexpr double marker = 3.6;

struct Layout {
  Axis axis;
  std::size_t positions = 1;
  double x(std::size_t i) const {
    const double step = (width - left - right) / static_cast<double>(positions);
    return left + step * (static_cast<double>(i) + 0.5);
  }
  double y(double value) const { return top + (height - top - bottom) * (1 - axis.share(value)); }
};

Layout lay_out(const LineChart& chart) {
  double lowest = 0, highest = 0;
  bool first = true;
  for (const Line& line : chart.lines) {
    for (const auto& value : line.values) {
      if (!value) continue;
      lowest = first ? *value : std::min(lowest, *value);
      highest = first ? *value : std::max(highest, *value);
      first = false;
    }
  }
  return {chart.from_zero ? axis_from_zero(highest) : axis_between(lowest, highest),
          chart.positions.size()};
}

std::string frame(const LineChart& chart, const Layout& layout) {
  std::string svg;
  for (double tick : layout.axis.ticks) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"label\" x=\"{}\" "
        "y=\"{:.1f}\">{}</text>",
        left, layout.y(tick), width - right, left - 6, layout.y(tick) + 4,
        layout.axis.tick_text(tick));
  }
  for (std::size_t i = 0; i < chart.positions.size(); ++i) {
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\">{}</text>", layout.x(i),
                       height - bottom + 15, escape(chart.positions[i]));
  }
  svg += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{}\">{}</text>",
                     (left + width - right) / 2, height - 8, escape(chart.x_name));
  return svg +
         fmt::format("<text class=\"unit start\" x=\"4\" y=\"11\">{}</text>", escape(chart.y_unit));
}

std::string line_path(const Line& line, const Layout& layout) {
  std::string path, points;
  bool pen_down = false;
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    if (!line.values[i]) {
      pen_down = false;
      continue;
    }
    const double x = layout.x(i), y = layout.y(*line.values[i]);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x, y);
    const bool of_job = i < line.jobs.size() && !line.jobs[i].empty();
    points += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"{}><title>{}: "
        "{}</title></circle>",
        line.style, x, y, marker, of_job ? " data-job=\"" + escape(line.jobs[i]) + "\"" : "",
        escape(line.name), significant(*line.values[i]));
    pen_down = true;
  }
  return fmt::format("<path class=\"line {}\" d=\"{}\"/>", line.style, path) + points;
}

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  const Layout layout = lay_out(chart);
  std::string svg = svg_begin(width, height, chart.title);
  svg += frame(chart, layout);
  for (const Line& line : chart.lines)
    svg += line_path(line, layout);
  return svg + "</svg>";
}

}  // namespace triplepoint::report
