// SPDX-License-Identifier: Apache-2.0
// Figures 5 and 17: a colour per GPU and job.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/heat_map.h"
#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {
namespace {

constexpr double top = 34, row_height = 17, cell = 19, node_gap = 5, character = 6.3;

struct Scale {
  Axis axis;
  bool is_logarithmic = false;
  double share(double value) const {
    return axis.share(is_logarithmic ? std::log2(std::max(value, 1e-300)) : value);
  }
  std::string tick_text(double tick) const {
    return is_logarithmic ? fmt::format("2^{}", tick) : axis.tick_text(tick);
  }
};

/// Powers of two below and above everything, at most seven ticks.
Axis powers_of_two(double low, double high) {
  Axis axis{std::floor(std::log2(low)),
            std::max(std::ceil(std::log2(high)), std::floor(std::log2(low)) + 1),
            {}};
  const auto lowest = static_cast<int>(axis.low), highest = static_cast<int>(axis.high);
  const int by = std::max(1, (highest - lowest + 5) / 6);
  for (int tick = lowest; tick <= highest; tick += by)
    axis.ticks.push_back(tick);
  return axis;
}

Scale scale_of(const PaperMap& map) {
  double low = 1e300, high = -1e300;
  for (const auto& [label, values] : map.rows)
    for (const double value : values) {
      if (!std::isfinite(value) || (map.is_logarithmic && value <= 0)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  if (low > high) low = 0, high = 1;
  // What is smaller than the rest by so much (a norm's few bytes) would take all colours.
  if (map.is_logarithmic) low = std::max(low, high / 65536);
  if (map.is_logarithmic && low > 0) return {powers_of_two(low, high), true};
  return {axis_between(low, high, 6), false};
}

/// Each GPU over all jobs that have it.
std::pair<std::string, std::vector<double>> mean_row(const PaperMap& map) {
  std::pair<std::string, std::vector<double>> mean{"Per-GPU Avg.", {}};
  std::size_t most = 0;
  for (const auto& [label, values] : map.rows)
    most = std::max(most, values.size());
  for (std::size_t i = 0; i < most; ++i) {
    double sum = 0, count = 0;
    for (const auto& [label, values] : map.rows)
      if (i < values.size() && std::isfinite(values[i])) {
        sum += values[i];
        count += 1;
      }
    mean.second.push_back(count > 0 ? sum / count : std::nan(""));
  }
  return mean;
}

double x_of(double left, std::size_t column, int64_t per_node) {
  const std::size_t node = column / static_cast<std::size_t>(std::max<int64_t>(1, per_node));
  return left + cell * static_cast<double>(column) + node_gap * static_cast<double>(node);
}

void draw_row(SvgSheet& sheet, const PaperMap& map, const Scale& scale, double left, double y,
              const std::pair<std::string, std::vector<double>>& row) {
  sheet.text(left - 6, y + 12.5, row.first, {.anchor = SvgSheet::Anchor::end, .size = 10.5});
  for (std::size_t i = 0; i < row.second.size(); ++i) {
    const double value = row.second[i];
    const double x = x_of(left, i, map.per_node);
    if (!std::isfinite(value)) {
      sheet.rect(x, y, cell - 0.6, row_height - 1, ink::pale, "not known");
      continue;
    }
    const double share = scale.share(value);
    sheet.rect(x, y, cell - 0.6, row_height - 1, heat_colour(share),
               fmt::format("{}, GPU {}: {} {}", row.first, i, significant(value), map.unit));
  }
}

double draw_scale(SvgSheet& sheet, const PaperMap& map, const Scale& scale, double left, double y) {
  constexpr int shades = 48;
  constexpr double length = 300;
  for (int i = 0; i < shades; ++i)
    sheet.rect(left + length * i / shades, y, length / shades + 0.4, 9,
               heat_colour((i + 0.5) / shades));
  for (const double tick : scale.axis.ticks)
    sheet.text(left + length * scale.axis.share(tick), y + 21, scale.tick_text(tick),
               {.anchor = SvgSheet::Anchor::middle, .size = 10});
  sheet.text(left + length + 10, y + 9, map.unit, {.size = 10.5});
  return y + 40;
}

double draw_map(SvgSheet& sheet, const PaperMap& map, double left, double y) {
  sheet.text(8, y + 12, map.title, {.size = 12, .bold = true});
  y += 36;
  const Scale scale = scale_of(map);
  std::size_t most = 0;
  for (const auto& [label, values] : map.rows)
    most = std::max(most, values.size());
  const auto per_node = static_cast<std::size_t>(std::max<int64_t>(1, map.per_node));
  for (std::size_t node = 0; node * per_node < most; ++node)
    sheet.text(x_of(left, node * per_node, map.per_node), y - 5, fmt::format("node {}", node),
               {.size = 10, .colour = ink::soft});
  if (map.adds_mean_row) {
    draw_row(sheet, map, scale, left, y, mean_row(map));
    y += row_height + 4;
  }
  for (const auto& row : map.rows) {
    draw_row(sheet, map, scale, left, y, row);
    y += row_height;
  }
  return draw_scale(sheet, map, scale, left, y + 6);
}

}  // namespace

std::string maps_figure(const std::string& title, const std::vector<PaperMap>& maps) {
  std::size_t longest = 12, columns = 1;
  int64_t per_node = 8;
  for (const PaperMap& map : maps)
    for (const auto& [label, values] : map.rows) {
      longest = std::max(longest, label.size());
      columns = std::max(columns, values.size());
      per_node = map.per_node;
    }
  const double left = static_cast<double>(longest) * character + 16;
  SvgSheet sheet;
  sheet.text(8, 18, title, {.size = 14, .bold = true});
  double y = top;
  for (const PaperMap& map : maps)
    y = draw_map(sheet, map, left, y) + 8;
  return sheet.svg(std::max(x_of(left, columns, per_node) + 10, 640.0), y, title);
}

}  // namespace triplepoint::report
