// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "triplepoint/base/units.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

constexpr double row_height = 16, cell_height = 15;
constexpr int quarters = 4;  // cells are placed in quarters of their width, which are whole numbers
constexpr double header = 18, footer = 60;
constexpr double character = 6.7;
constexpr int shades = 48;  // steps of the colour scale: finer than the eye tells apart

struct Colour {
  double red, green, blue;
};
constexpr std::array<Colour, 8> anchors = {{{40, 11, 84},
                                            {101, 21, 110},
                                            {159, 42, 99},
                                            {212, 72, 66},
                                            {245, 125, 21},
                                            {250, 178, 40},
                                            {247, 218, 80},
                                            {252, 255, 164}}};

struct Layout {
  double left = 0, cell = 10, width = 0;
  std::size_t columns = 0;
  int64_t per_node = 8;
  Axis axis;
  int64_t gap_quarters() const { return cell >= 8 ? 2 : quarters; }  // between nodes
  double gap() const { return cell * as_real(gap_quarters()) / quarters; }
  int64_t quarter(std::size_t column) const {
    const auto at = static_cast<int64_t>(column);
    return quarters * at + gap_quarters() * (at / std::max<int64_t>(1, per_node));
  }
  double x(std::size_t column) const { return left + cell * as_real(quarter(column)) / quarters; }
};

Layout lay_out(const HeatMap& map) {
  Layout layout;
  layout.per_node = map.per_node;
  std::size_t longest = 4;
  double lowest = 1e30, highest = -1e30;
  for (const HeatRow& row : map.rows) {
    longest = std::max(longest, row.label.size());
    layout.columns = std::max(layout.columns, row.values.size());
    for (double value : row.values) {
      if (!std::isfinite(value)) continue;  // the device did not say
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
  }
  layout.left = as_real(longest) * character + 8;
  layout.cell = std::clamp(760.0 / as_real(std::max<std::size_t>(1, layout.columns)), 1.0,
                           layout.columns <= 8 ? 32.0 : 24.0);
  layout.width = layout.x(layout.columns) + 6;
  layout.axis = axis_between(lowest, highest, layout.width < 500 ? 4 : 6);
  if (map.unit == "%") std::erase_if(layout.axis.ticks, [](double tick) { return tick > 100; });
  return layout;
}

/// The shade of a value, 0 to `shades`; absent if the device did not say.
std::optional<int> shade_of(double value, const Axis& axis) {
  if (!std::isfinite(value)) return std::nullopt;
  return static_cast<int>(std::lround(axis.share(value) * shades));
}

/// All cells of one shade as one path of thick strokes, equal neighbours as one stroke: a map of
/// thousands of devices stays small.
std::string cells(const HeatMap& map, const Layout& layout) {
  std::map<int, std::string> paths;
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const std::vector<double>& values = map.rows[r].values;
    for (std::size_t c = 0; c < values.size();) {
      const auto shade = shade_of(values[c], layout.axis);
      std::size_t end = c + 1;
      while (end < values.size() && layout.quarter(end) == layout.quarter(end - 1) + quarters &&
             shade_of(values[end], layout.axis) == shade)
        ++end;
      if (shade)
        paths[*shade] += fmt::format("M{} {}h{}", layout.quarter(c), r,
                                     layout.quarter(end - 1) - layout.quarter(c) + quarters);
      c = end;
    }
  }
  std::string svg = fmt::format(
      "<g fill=\"none\" stroke-width=\"{:.3f}\" transform=\"translate({:.1f} {:.1f}) scale({:.5f} "
      "{})\">",
      cell_height / row_height, layout.left, header + cell_height / 2, layout.cell / quarters,
      row_height);
  for (const auto& [shade, path] : paths)
    svg +=
        fmt::format("<path stroke=\"{}\" d=\"{}\"/>", heat_colour(as_real(shade) / shades), path);
  return svg + "</g>";
}

/// What is said of a row: its label, and if it is a job's, a place to click at.
std::string row_label(const HeatRow& row, double y, const Layout& layout) {
  std::string text = fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                                 layout.left - 6, y + 11.5, escape(row.label));
  if (row.job.empty()) return text;
  return fmt::format(
      "<g data-job=\"{}\">{}<rect class=\"row\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" "
      "height=\"{}\"/></g>",
      escape(row.job), text, layout.left, y, std::max(0.0, layout.width - layout.left - 6),
      cell_height);
}

std::string labels(const HeatMap& map, const Layout& layout) {
  // Invisible rectangles make rows of jobs clickable.
  std::string svg = "<g fill=\"transparent\">";
  for (std::size_t r = 0; r < map.rows.size(); ++r)
    svg += row_label(map.rows[r], header + row_height * as_real(r), layout);
  svg += "</g>";
  const auto per_node = as_size(std::max<int64_t>(1, layout.per_node));
  const std::size_t nodes = (layout.columns + per_node - 1) / per_node;
  const double node_width = layout.cell * as_real(per_node);
  const std::size_t every = node_width >= 48 ? 1 : as_size(std::ceil(48 / node_width));
  for (std::size_t node = 0; map.names_nodes && node < nodes; node += every)
    svg += fmt::format("<text class=\"tick start\" x=\"{:.1f}\" y=\"12\">node {}</text>",
                       layout.x(node * per_node), node);
  return svg;
}

std::string colour_scale(const HeatMap& map, const Layout& layout, double y) {
  const double length = std::min(300.0, layout.width - layout.left - 18);
  const auto at = [&](double share) { return layout.left + length * share; };
  std::string svg;
  for (int i = 0; i < shades; ++i)
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"9\" fill=\"{}\"/>",
        at(as_real(i) / shades), y, length / shades + 0.4, heat_colour((i + 0.5) / shades));
  for (double tick : layout.axis.ticks)
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                       at(layout.axis.share(tick)), y + 21, layout.axis.tick_text(tick));
  return svg + fmt::format("<text class=\"unit start\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                           layout.left, y + 37, escape(map.unit));
}

}  // namespace

std::string heat_colour(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (anchors.size() - 1);
  const auto index = std::min(as_size(place), anchors.size() - 2);
  const double part = place - as_real(index);
  const auto mix = [&](double Colour::*channel) {
    return static_cast<int>(
        std::lround(anchors[index].*channel * (1 - part) + anchors[index + 1].*channel * part));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(&Colour::red), mix(&Colour::green),
                     mix(&Colour::blue));
}

std::string heat_map_svg(const HeatMap& map) {
  const Layout layout = lay_out(map);
  const double rows = header + row_height * as_real(map.rows.size());
  std::string svg = fmt::format(
      "<svg class=\"heat\" data-left=\"{:.1f}\" data-top=\"{}\" data-cell=\"{:.4f}\" "
      "data-row=\"{}\" data-per-node=\"{}\" data-gap=\"{}\"{}",
      layout.left, header, layout.cell, row_height, map.per_node, layout.gap(),
      svg_begin(layout.width, rows + footer, map.title).substr(4));
  return svg + cells(map, layout) + labels(map, layout) + colour_scale(map, layout, rows + 8) +
         "</svg>";
}

}  // namespace triplepoint::report
