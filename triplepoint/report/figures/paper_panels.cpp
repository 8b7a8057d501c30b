// SPDX-License-Identifier: Apache-2.0
// Figures 4, 8 and 13: three panels over jobs.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/heat_map.h"
#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {
namespace {

constexpr double left = 64, right = 62, top = 56, panel = 128, panel_gap = 16, step = 15;
constexpr double group_gap = 10, title_character = 6.6;

using Value = std::optional<double>;

struct Panel {
  const char *name, *mean_quantity, *peak_quantity;
  bool from_zero;
  Value (*mean)(const metrics::Metrics&);
  Value (*peak)(const metrics::Metrics&);
};

constexpr Panel panels[] = {{"temperature (°C)", "temperature_mean_c", "temperature_peak_c", false,
                             [](const metrics::Metrics& m) { return m.temperature_mean_c; },
                             [](const metrics::Metrics& m) { return m.temperature_peak_c; }},
                            {"power (W)", "power_mean_w", "power_peak_w", true,
                             [](const metrics::Metrics& m) { return m.power_mean_w; },
                             [](const metrics::Metrics& m) { return m.power_peak_w; }},
                            {"SM clock (GHz)", "sm_clock_mean_ghz", nullptr, false,
                             [](const metrics::Metrics& m) {
                               return m.sm_clock_mean_mhz ? Value(*m.sm_clock_mean_mhz / 1e3)
                                                          : Value();
                             },
                             nullptr}};

/// Everything in the order in which it is drawn, with its place.
struct PlotPosition {
  const PaperJob* job = nullptr;
  std::string label;
  double x = 0;
  bool begins_line = false;
  double efficiency = 0;  // as drawn; negative: unknown
};

std::vector<PlotPosition> spots_of(const std::vector<PaperGroup>& groups, bool normalizes) {
  std::vector<PlotPosition> spots;
  double x = left + step;
  for (const PaperGroup& group : groups) {
    double best = 0;
    for (const PaperJob* job : group.jobs)
      best = std::max(best, job->efficiency.value_or(0));
    for (std::size_t i = 0; i < group.jobs.size(); ++i) {
      const Value efficiency = group.jobs[i]->efficiency;
      const double scale = normalizes && best > 0 ? best : 1;
      spots.push_back(
          {group.jobs[i], group.labels[i], x, i == 0, efficiency ? *efficiency / scale : -1});
      x += step;
    }
    // A narrow group makes room for its title.
    const double taken = step * static_cast<double>(group.jobs.size());
    const double room =
        std::max(0.0, title_character * static_cast<double>(group.title.size()) - taken);
    for (std::size_t i = spots.size() - group.jobs.size(); i < spots.size(); ++i)
      spots[i].x += room / 2;
    x += room + group_gap;
  }
  return spots;
}

template <class Of>
Axis axis_of(const std::vector<PlotPosition>& spots, bool from_zero, const std::vector<Of>& all) {
  double low = 1e300, high = -1e300;
  for (const PlotPosition& spot : spots)
    for (const Of& of : all) {
      if (!of) continue;
      const Value value = spot.job->fits_memory ? of(spot.job->metrics) : Value();
      if (!value) continue;
      low = std::min(low, *value);
      high = std::max(high, *value);
    }
  if (low > high) return axis_from_zero(1, 4);
  return from_zero ? axis_from_zero(high, 4) : axis_between(low, high, 4);
}

/// Points of one curve; lines join neighbours of a group, and break where a job has no value.
template <class At>
void curve(SvgSheet& sheet, const std::vector<PlotPosition>& spots, const At& at, int shape,
           const char* colour, const char* dashes) {
  std::string path;
  bool pen_down = false;
  for (const PlotPosition& spot : spots) {
    const std::optional<double> y = at(spot);
    if (!y) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down && !spot.begins_line ? "L" : "M", spot.x, *y);
    pen_down = true;
  }
  if (!path.empty()) sheet.path(path, colour, 1.2, dashes);
  for (const PlotPosition& spot : spots)
    if (const auto y = at(spot)) sheet.marker(shape, spot.x, *y, colour);
}

void draw_panel(SvgSheet& sheet, const Panel& of, const std::vector<PlotPosition>& spots,
                PlotBox box) {
  using Function = Value (*)(const metrics::Metrics&);
  box.axis = axis_of<Function>(spots, of.from_zero, {of.mean, of.peak});
  draw_axis(sheet, box, of.name);
  PlotBox efficiency = box;
  double best = 0;
  for (const PlotPosition& spot : spots)
    best = std::max(best, spot.efficiency);
  efficiency.axis = axis_from_zero(best > 0 ? best : 1, 4);
  if (best > 0) draw_right_axis(sheet, efficiency, "efficiency");
  for (const PlotPosition& spot : spots)
    if (!spot.job->fits_memory)
      sheet.rect(spot.x - step / 2 + 1, box.top, step - 2, box.height, ink::pale, "out of memory");
  curve(
      sheet, spots,
      [&](const PlotPosition& s) {
        return s.efficiency < 0 ? Value() : Value(efficiency.y(s.efficiency));
      },
      3, ink::grey, "3 2");
  const auto y_of = [&](Function function) {
    return [&box, function](const PlotPosition& s) {
      const Value value = s.job->fits_memory ? function(s.job->metrics) : Value();
      return value ? Value(box.y(*value)) : Value();
    };
  };
  curve(sheet, spots, y_of(of.mean), 0, ink::blue, "");
  if (of.peak != nullptr) curve(sheet, spots, y_of(of.peak), 1, ink::vermilion, "");
}

void draw_legend(SvgSheet& sheet, double y, bool has_efficiency, bool normalizes) {
  double x = left;
  const auto entry = [&](int shape, const char* colour, const std::string& words) {
    sheet.marker(shape, x, y - 4, colour);
    sheet.text(x + 9, y, words);
    x += 30 + 6.2 * static_cast<double>(words.size());
  };
  entry(0, ink::blue, "mean over GPUs");
  entry(1, ink::vermilion, "peak");
  if (has_efficiency)
    entry(3, ink::grey,
          normalizes ? "efficiency, samples/(s MJ), over the best of its group"
                     : "efficiency, samples/(s MJ)");
  sheet.rect(x - 5, y - 10, 11, 11, ink::pale);
  sheet.text(x + 10, y, "out of memory");
}

std::vector<FigureNumber> numbers_of(const std::vector<PlotPosition>& spots, bool normalizes) {
  std::vector<FigureNumber> numbers;
  for (const PlotPosition& spot : spots) {
    const auto add = [&](const char* quantity, const Value& value) {
      if (value) numbers.push_back({.job = spot.job, .quantity = quantity, .value = *value});
    };
    if (!spot.job->fits_memory) {
      add(out_of_memory_quantity, 1);
      continue;
    }
    for (const Panel& of : panels) {
      add(of.mean_quantity, of.mean(spot.job->metrics));
      if (of.peak != nullptr) add(of.peak_quantity, of.peak(spot.job->metrics));
    }
    if (spot.efficiency >= 0)
      add(normalizes ? "efficiency_over_best" : "efficiency_samples_per_s_mj", spot.efficiency);
  }
  return numbers;
}

}  // namespace

PaperFigure panels_figure(const std::string& title, const std::vector<PaperGroup>& groups,
                          bool normalizes_efficiency) {
  const std::vector<PlotPosition> spots = spots_of(groups, normalizes_efficiency);
  const double plot =
      spots.back().x + step - left +
      std::max(0.0, title_character * static_cast<double>(groups.back().title.size()) / 2 - step);
  double longest = 0;
  for (const PlotPosition& spot : spots)
    longest = std::max(longest, static_cast<double>(spot.label.size()));
  SvgSheet sheet;
  sheet.text(left, 18, title, {.size = 14, .bold = true});
  const bool has_efficiency =
      std::ranges::any_of(spots, [](const PlotPosition& spot) { return spot.efficiency >= 0; });
  draw_legend(sheet, 36, has_efficiency, normalizes_efficiency);
  double y = top;
  for (const Panel& of : panels) {
    draw_panel(sheet, of, spots, {left, y, plot, panel, {}});
    y += panel + panel_gap;
  }
  for (const PlotPosition& spot : spots)
    sheet.text(spot.x + 4, y - panel_gap + 8, spot.label,
               {.anchor = SvgSheet::Anchor::end, .size = 10.5, .turned = -90});
  const double foot = y - panel_gap + 16 + 6.1 * longest;
  std::size_t first = 0;
  for (const PaperGroup& group : groups) {
    const PlotPosition &begin = spots[first], &end = spots[first + group.jobs.size() - 1];
    sheet.line(begin.x - 5, foot, end.x + 5, foot, ink::soft);
    sheet.text((begin.x + end.x) / 2, foot + 14, group.title,
               {.anchor = SvgSheet::Anchor::middle, .size = 11, .bold = true});
    if (first > 0)
      sheet.path(fmt::format("M{:.2f} {:.2f}V{:.2f}", begin.x - (step + group_gap) / 2, top,
                             y - panel_gap),
                 ink::grey, 0.7, "2 3");
    first += group.jobs.size();
  }
  const double width = std::max(left + plot + right, 560.0);
  return {sheet.svg(width, foot + 26, title), numbers_of(spots, normalizes_efficiency)};
}

// Figures 5 and 17: a colour per GPU and job.

namespace {

constexpr double map_top = 34, row_height = 17, cell = 19, node_gap = 5, character = 6.3;

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
  for (const MapRow& row : map.rows)
    for (const double value : row.values) {
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
MapRow mean_row(const PaperMap& map) {
  MapRow mean{mean_row_label, {}};
  std::size_t most = 0;
  for (const MapRow& row : map.rows)
    most = std::max(most, row.values.size());
  for (std::size_t i = 0; i < most; ++i) {
    double sum = 0, count = 0;
    for (const MapRow& row : map.rows)
      if (i < row.values.size() && std::isfinite(row.values[i])) {
        sum += row.values[i];
        count += 1;
      }
    mean.values.push_back(count > 0 ? sum / count : std::nan(""));
  }
  return mean;
}

double x_of(double left, std::size_t column, int64_t per_node) {
  const std::size_t node = column / static_cast<std::size_t>(std::max<int64_t>(1, per_node));
  return left + cell * static_cast<double>(column) + node_gap * static_cast<double>(node);
}

void draw_row(SvgSheet& sheet, const PaperMap& map, const Scale& scale, double left, double y,
              const MapRow& row) {
  sheet.text(left - 6, y + 12.5, row.label, {.anchor = SvgSheet::Anchor::end, .size = 10.5});
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    const double value = row.values[i];
    const double x = x_of(left, i, map.per_node);
    if (!std::isfinite(value)) {
      sheet.rect(x, y, cell - 0.6, row_height - 1, ink::pale, "not known");
      continue;
    }
    const double share = scale.share(value);
    sheet.rect(x, y, cell - 0.6, row_height - 1, heat_colour(share),
               fmt::format("{}, GPU {}: {}{}{}", row.label, i, significant(value),
                           map.unit.empty() ? "" : " ", map.unit));
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
  for (const MapRow& row : map.rows)
    most = std::max(most, row.values.size());
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

void add_numbers(std::vector<FigureNumber>& numbers, const PaperMap& map, const MapRow& row) {
  for (std::size_t i = 0; i < row.values.size(); ++i)
    if (std::isfinite(row.values[i]))
      numbers.push_back({.job = row.job,
                         .quantity = map.quantity,
                         .gpu = static_cast<int32_t>(i),
                         .value = row.values[i]});
}

std::vector<FigureNumber> numbers_of(const std::vector<PaperMap>& maps) {
  std::vector<FigureNumber> numbers;
  for (const PaperMap& map : maps) {
    for (const MapRow& row : map.rows)
      add_numbers(numbers, map, row);
    if (map.adds_mean_row) add_numbers(numbers, map, mean_row(map));
  }
  return numbers;
}

}  // namespace

PaperFigure maps_figure(const std::string& title, const std::vector<PaperMap>& maps) {
  std::size_t longest = 12, columns = 1;
  int64_t per_node = 8;
  for (const PaperMap& map : maps)
    for (const MapRow& row : map.rows) {
      longest = std::max(longest, row.label.size());
      columns = std::max(columns, row.values.size());
      per_node = map.per_node;
    }
  const double left = static_cast<double>(longest) * character + 16;
  SvgSheet sheet;
  sheet.text(8, 18, title, {.size = 14, .bold = true});
  double y = map_top;
  for (const PaperMap& map : maps)
    y = draw_map(sheet, map, left, y) + 8;
  return {sheet.svg(std::max(x_of(left, columns, per_node) + 10, 640.0), y, title),
          numbers_of(maps)};
}

}  // namespace triplepoint::report
