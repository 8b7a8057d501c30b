// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

constexpr std::string_view speed = "tokens_per_s", energy = "joules_per_token",
                           heat = "temperature_c.peak";
constexpr double least_saving = 5e-3;
constexpr std::size_t most_labels = 3;  // more would lie over each other

std::vector<const StudyRow*> rows_with_both(const Group& group) {
  std::vector<const StudyRow*> rows = group.that_ran();
  std::erase_if(rows, [](const StudyRow* row) {
    return number_at(*row, speed).value_or(0) <= 0 || number_at(*row, energy).value_or(0) <= 0;
  });
  return rows;
}

std::string title_of(const std::vector<const StudyRow*>& front) {
  const StudyRow &fast = *front.front(), &thrifty = *front.back();
  if (front.size() == 1) return "Speed against energy: " + full_label(fast) + " is best in both";
  return fmt::format(
      "Speed against energy: a choice of {}, from {} to {}, which saves {} energy for {} speed",
      front.size(), full_label(fast), full_label(thrifty),
      percent(1 - known_number(thrifty, energy) / known_number(fast, energy)),
      percent(1 - known_number(thrifty, speed) / known_number(fast, speed)));
}

}  // namespace

std::vector<const StudyRow*> pareto_front(const Group& group) {
  std::vector<const StudyRow*> rows = rows_with_both(group), front;
  std::ranges::stable_sort(rows, [](const StudyRow* a, const StudyRow* b) {
    if (known_number(*a, speed) != known_number(*b, speed))
      return known_number(*a, speed) > known_number(*b, speed);
    return known_number(*a, energy) < known_number(*b, energy);
  });
  for (const StudyRow* row : rows)
    if (front.empty() ||
        known_number(*row, energy) < (1 - least_saving) * known_number(*front.back(), energy))
      front.push_back(row);
  return front;
}

std::optional<Drawing> pareto_figure(const Group& group) {
  const std::vector<const StudyRow*> rows = rows_with_both(group), front = pareto_front(group);
  if (rows.size() < 2) return std::nullopt;
  const std::string scope = energy_scope_of(*rows.front());
  ScatterChart chart{title_of(front),
                     scope + " energy (J/token)",
                     "throughput (tokens/s)",
                     "peak die temperature (°C)",
                     {}};
  DataTable table = titled_table(
      {"job", "tokens/s", scope + " J/token", "peak die temperature (°C)", "on the front"});
  for (const StudyRow* row : rows) {
    const bool on_front = holds(front, row);
    const std::string x = significant(number_at(*row, energy)),
                      y = significant(number_at(*row, speed), 4);
    const auto hot = number_at(*row, heat);
    chart.points.push_back({known_number(*row, energy), known_number(*row, speed), hot, row->name,
                            fmt::format("{}: {} tokens/s at {} {} J/token, peak {} °C",
                                        full_label(*row), y, x, scope, significant(hot)),
                            "", on_front});
    if (on_front && front.size() <= most_labels) chart.points.back().label = short_label(*row);
    table.add({full_label(*row), y, x, significant(hot), on_front ? "yes" : ""}, row->name);
  }
  return Drawing{
      "pareto-" + group.id, chart.title,
      "Better is up and to the left. Ringed: no other job is faster without more energy, "
      "or saves half a per cent of it.",
      scatter_chart_svg(chart), std::move(table)};
}

namespace {

constexpr double width = 460, height = 330;
constexpr double left = 56, right = 14, top = 18, bottom = 76;
constexpr double radius = 4.5;
constexpr double far_apart = 12;  // highest over lowest, from which on an axis is logarithmic
constexpr int shades = 24;

struct Range {
  double low = 0, high = 1;
  bool is_known = false;
  void take(double value) {
    low = is_known ? std::min(low, value) : value;
    high = is_known ? std::max(high, value) : value;
    is_known = true;
  }
};

/// An axis that may be logarithmic.
struct Scale {
  Axis axis;  // of the logarithms, if it is
  bool is_log = false;
  double share(double value) const { return axis.share(is_log ? std::log10(value) : value); }
  std::string text(double tick) const {
    if (!is_log) return axis.tick_text(tick);
    const double value = std::pow(10.0, tick);
    return value >= 10000 ? fmt::format("{:.6g}k", value / 1000) : fmt::format("{:.6g}", value);
  }
};

/// Ticks at 1, 2 and 5 times powers of ten around the range.
Axis logarithmic(const Range& range) {
  std::vector<double> ticks;
  for (int power = -9; power <= 12; ++power)
    for (double factor : {1.0, 2.0, 5.0})
      ticks.push_back(power + std::log10(factor));
  const double low = std::log10(range.low), high = std::log10(range.high);
  auto first = std::upper_bound(ticks.begin(), ticks.end(), low + 1e-9) - 1;
  auto last = std::lower_bound(ticks.begin(), ticks.end(), high - 1e-9);
  Axis axis{*first, *last, {}};
  axis.ticks.assign(first, last + 1);
  constexpr std::size_t most_ticks = 9;  // else powers of ten alone
  if (axis.ticks.size() > most_ticks)
    std::erase_if(axis.ticks, [](double tick) { return std::abs(tick - std::round(tick)) > 1e-9; });
  return axis;
}

Scale scale_of(const Range& range) {
  if (!range.is_known) return {axis_from_zero(1), false};
  if (range.low > 0 && range.high / range.low > far_apart) return {logarithmic(range), true};
  return {axis_between(range.low, range.high, 5), false};
}

struct Layout {
  Scale x_scale, y_scale;
  Axis colours;
  double x(double value) const { return left + (width - left - right) * x_scale.share(value); }
  double y(double value) const {
    return top + (height - top - bottom) * (1 - y_scale.share(value));
  }
};

Layout lay_out(const ScatterChart& chart) {
  Range x, y, colour;
  for (const Point& point : chart.points) {
    x.take(point.x);
    y.take(point.y);
    if (point.colour) colour.take(*point.colour);
  }
  if (chart.diagonal && x.is_known) {
    x.take(y.low);
    x.take(y.high);
    y = x;
  }
  return {scale_of(x), scale_of(y), axis_between(colour.low, colour.high, 4)};
}

std::string frame(const ScatterChart& chart, const Layout& layout) {
  std::string svg;
  for (double tick : layout.y_scale.axis.ticks) {
    const double y = top + (height - top - bottom) * (1 - layout.y_scale.axis.share(tick));
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"label\" x=\"{}\" "
        "y=\"{:.1f}\">{}</text>",
        left, y, width - right, left - 6, y + 4, layout.y_scale.text(tick));
  }
  for (double tick : layout.x_scale.axis.ticks) {
    const double x = left + (width - left - right) * layout.x_scale.axis.share(tick);
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {}V{}\"/><text class=\"tick\" x=\"{:.1f}\" "
        "y=\"{}\">{}</text>",
        x, top, height - bottom, x, height - bottom + 14, layout.x_scale.text(tick));
  }
  const auto named = [](const Scale& scale, const std::string& unit) {
    return escape(unit + (scale.is_log ? ", logarithmic" : ""));
  };
  svg += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{}\">{}</text>",
                     (left + width - right) / 2, height - bottom + 30,
                     named(layout.x_scale, chart.x_unit));
  return svg + fmt::format("<text class=\"unit start\" x=\"4\" y=\"11\">{}</text>",
                           named(layout.y_scale, chart.y_unit));
}

/// y = factor x, as far as the frame goes.
std::string straight_line(const Layout& layout, double factor, const char* style) {
  const bool is_log = layout.x_scale.is_log;
  const auto value = [&](double end) { return is_log ? std::pow(10.0, end) : end; };
  const double low = value(layout.x_scale.axis.low), high = value(layout.x_scale.axis.high);
  const double from = std::max(low, low / factor), to = std::min(high, high / factor);
  return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", style,
                     layout.x(from), layout.y(from * factor), layout.x(to), layout.y(to * factor));
}

std::string diagonal(const ScatterChart& chart, const Layout& layout) {
  if (!chart.diagonal) return "";
  return straight_line(layout, 1, "peak") + straight_line(layout, 2, "half") +
         straight_line(layout, 0.5, "half");
}

std::string colour_scale(const ScatterChart& chart, const Layout& layout) {
  if (chart.colour_unit.empty()) return "";
  constexpr double length = 190, y = height - 26;
  const double start = width - right - length;
  std::string svg;
  for (int i = 0; i < shades; ++i)
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"8\" fill=\"{}\"/>",
                       start + length * i / shades, y, length / shades + 0.4,
                       heat_colour((i + 0.5) / shades));
  for (double tick : layout.colours.ticks)
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\">{}</text>",
                       start + length * layout.colours.share(tick), y + 20,
                       layout.colours.tick_text(tick));
  return svg + fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{}\">{}</text>", start - 8,
                           y + 8, escape(chart.colour_unit));
}

/// The front as steps would cut corners: straight lines between its points, by their x.
std::string front_line(const ScatterChart& chart, const Layout& layout) {
  std::vector<const Point*> front;
  for (const Point& point : chart.points)
    if (point.on_front) front.push_back(&point);
  if (front.size() < 2) return "";
  std::ranges::sort(front, [](const Point* a, const Point* b) { return a->x < b->x; });
  std::string path;
  for (const Point* point : front)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", layout.x(point->x),
                        layout.y(point->y));
  return "<path class=\"front\" fill=\"none\" stroke=\"currentColor\" d=\"" + path + "\"/>";
}

std::string mark(const Point& point, const Layout& layout) {
  const double x = layout.x(point.x), y = layout.y(point.y);
  std::string svg =
      fmt::format("<g data-job=\"{}\"><title>{}</title>", escape(point.job), escape(point.hint));
  if (point.on_front)
    svg += fmt::format(
        "<circle class=\"ring\" fill=\"none\" stroke=\"currentColor\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
        "r=\"{}\"/>",
        x, y, radius + 2.5);
  const std::string look =
      !point.style.empty() ? fmt::format("class=\"dot {}\"", point.style)
      : point.colour       ? fmt::format("style=\"fill:{};stroke:var(--soft);stroke-width:0.5\"",
                                         heat_colour(layout.colours.share(*point.colour)))
                           : "style=\"fill:var(--grey)\"";
  svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" {}/>", x, y,
                     point.style.empty() ? radius : 0.7 * radius, look);
  if (!point.label.empty()) {
    const bool at_right = x < left + (width - left - right) * 0.6;
    svg += fmt::format(
        "<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\" style=\"text-anchor:{}\">{}</text>",
        at_right ? x + 10 : x - 10, y + 4, at_right ? "start" : "end", escape(point.label));
  }
  return svg + "</g>";
}

}  // namespace

std::string scatter_chart_svg(const ScatterChart& chart) {
  const Layout layout = lay_out(chart);
  std::string svg = svg_begin(width, chart.colour_unit.empty() ? height - 36 : height, chart.title);
  svg += frame(chart, layout) + diagonal(chart, layout) + colour_scale(chart, layout) +
         front_line(chart, layout);
  for (const Point& point : chart.points)
    svg += mark(point, layout);
  return svg + "</svg>";
}

}  // namespace triplepoint::report
