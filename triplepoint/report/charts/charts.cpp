// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/charts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/svg.h"

namespace triplepoint::report {
namespace {

constexpr double line_width = 300, line_height = 230;
constexpr double left = 44, right = 8, top = 18, bottom = 40;
constexpr double marker = 3.6;
constexpr std::size_t most_markers = 60;  // of a line

struct LineLayout {
  Axis axis;
  std::size_t positions = 1;
  double x(std::size_t i) const {
    const double step = (line_width - left - right) / static_cast<double>(positions);
    return left + step * (static_cast<double>(i) + 0.5);
  }
  double y(double value) const {
    return top + (line_height - top - bottom) * (1 - axis.share(value));
  }
};

LineLayout lay_out_lines(const LineChart& chart) {
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

std::string frame(const LineChart& chart, const LineLayout& layout) {
  std::string drawing;
  for (const double tick : layout.axis.ticks)
    drawing +=
        svg::tick_across(layout.y(tick), left, line_width - right, layout.axis.tick_text(tick));
  // Names of positions that have room beside each other.
  std::size_t longest = 1;
  for (const std::string& name : chart.positions)
    longest = std::max(longest, name.size());
  const double room = (line_width - left - right) / static_cast<double>(layout.positions);
  const auto every = static_cast<std::size_t>(std::ceil((svg::label_room(longest) - 1) / room));
  for (std::size_t i = 0; i < chart.positions.size(); i += every)
    if (!chart.positions[i].empty())
      drawing += svg::text("tick", layout.x(i), line_height - bottom + 15, chart.positions[i]);
  return drawing +
         svg::text("unit", (left + line_width - right) / 2, line_height - 8, chart.x_name) +
         svg::text("unit start", 4, 11, chart.y_unit);
}

std::string line_path(const Line& line, const LineLayout& layout) {
  std::string path, points;
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    if (!line.values[i]) continue;
    const double x = layout.x(i), y = layout.y(*line.values[i]);
    path += svg::point(x, y, i > 0 && line.values[i - 1]);
    if (line.values.size() > most_markers) continue;
    points += svg::dot(line.style, x, y, marker, line.name + ": " + significant(*line.values[i]));
  }
  return svg::path("line " + line.style, path) + points;
}

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  const LineLayout layout = lay_out_lines(chart);
  std::string drawing = svg_begin(line_width, line_height, chart.title) + frame(chart, layout);
  for (const Line& line : chart.lines)
    drawing += line_path(line, layout);
  return drawing + "</svg>";
}

}  // namespace triplepoint::report
