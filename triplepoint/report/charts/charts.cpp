// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/charts.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/lists.h"
#include "triplepoint/base/text.h"

namespace triplepoint::report {
namespace {

double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (rough <= factor * power * 1.0000001) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double Axis::share(double value) const {
  return std::clamp((value - low) / (high - low), 0.0, 1.0);
}

std::string Axis::tick_text(double tick) const {
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  if (std::abs(tick) >= 10000 && step >= 1000) return fmt::format("{:.0f}k", tick / 1000);
  int decimals = 0;  // the fewest that write the step exactly
  for (double rest = step; decimals < 9 && std::abs(rest - std::round(rest)) > 1e-6 * rest;
       rest *= 10)
    ++decimals;
  return fmt::format("{:.{}f}", tick, decimals);
}

Axis axis_between(double lowest, double highest, int most) {
  if (!(highest - lowest > 1e-3 * std::abs(highest))) {  // all alike: show them in the middle
    const double margin = std::max(1e-2 * std::abs(highest), 1e-9);
    lowest -= margin, highest += margin;
  }
  const double step = round_step((highest - lowest) / most);
  const double first = std::floor(lowest / step + 1e-9), last = std::ceil(highest / step - 1e-9);
  Axis axis{first * step, last * step, {}};
  for (int i = 0; i <= static_cast<int>(last - first); ++i)
    axis.ticks.push_back((first + i) * step);
  return axis;
}

Axis axis_from_zero(double highest, int most) {
  return axis_between(0, highest > 0 ? highest : 1, most);
}

namespace {

// In the drawing's own units, about one CSS pixel each (svg_begin).
constexpr double least_right_margin = 52;  // room for the text at the end of the longest bar
constexpr double row_height = 19;
constexpr double bar_height = 13;
constexpr double group_gap = 7;
constexpr double axis_height = 36;
constexpr double character = 7;  // mean width of one at the label's size

double length_of(const Bar& bar) {
  return sum_of(bar.parts, &BarPart::value);
}

/// The longest thing that is drawn of a bar.
double reach_of(const Bar& bar) {
  return std::max(length_of(bar), bar.peak.value_or(0));
}

/// Where things are in one chart.
struct Layout {
  double width = 0, left = 0, plot = 0, height = 0;
  Axis axis;
  double x(double value) const { return left + plot * axis.share(value); }
};

double right_margin(const BarChart& chart) {
  std::size_t longest = most_of(chart.bars, [&](const Bar& bar) {
    return std::max(bar.text.size(), bar.parts.empty() ? 0 : bar.status.size());
  });
  return std::max(least_right_margin, static_cast<double>(longest) * character + 8);
}

Layout lay_out(const BarChart& chart, double width) {
  Layout layout{.width = width};
  std::size_t longest = 4;
  std::vector<double> lengths;
  double rows = 4;
  for (const Bar& bar : chart.bars) {
    longest = std::max(longest, bar.label.size());
    if (bar.status.empty() || !bar.parts.empty()) lengths.push_back(reach_of(bar));
    rows += row_height + (bar.begins_group ? group_gap : 0);
  }
  layout.left = std::min(width / 2, static_cast<double>(longest) * character + 8);
  layout.plot = width - layout.left - right_margin(chart);
  layout.height = rows + axis_height;
  double highest =
      chart.cuts || lengths.empty() ? cut_above(lengths) : *std::ranges::max_element(lengths);
  if (chart.limit) highest = std::max(highest, *chart.limit);
  // A tick of four digits takes 40 units with the gap to the next.
  const int ticks = std::clamp(static_cast<int>(layout.plot / 40), 2, 6);
  layout.axis =
      chart.low != 0 ? axis_between(chart.low, highest, ticks) : axis_from_zero(highest, ticks);
  return layout;
}

std::string grid(const BarChart& chart, const Layout& layout) {
  const double bottom = layout.height - axis_height;
  std::string svg;
  for (double tick : layout.axis.ticks) {
    const double x = layout.x(tick);
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} 0V{:.1f}\"/>", x, bottom);
    svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x, bottom + 14,
                       layout.axis.tick_text(tick));
  }
  return svg + fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                           layout.left + layout.plot / 2, bottom + 30, escape(chart.unit));
}

std::string bar_parts(const Bar& bar, const Layout& layout, double y) {
  std::string svg;
  double from = 0;
  for (const BarPart& part : bar.parts) {
    const double begin = layout.x(from), end = layout.x(from + part.value);
    from += part.value;
    if (end - begin < 0.05) continue;
    svg +=
        fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"{}",
                    part.style, begin, y, end - begin, bar_height,
                    part.name.empty() ? "/>" : "><title>" + escape(part.name) + "</title></rect>");
  }
  if (from > layout.axis.high * (1 + 1e-9)) {  // two slanted strokes: this bar goes on
    const double x = layout.x(layout.axis.high) - 10;
    svg += fmt::format("<path class=\"cut\" d=\"M{0:.1f} {2:.1f}l4 -{1}h4l-4 {1}z\"/>", x,
                       bar_height + 4, y + bar_height + 2);
  }
  return svg;
}

std::string peak_mark(const Bar& bar, const Layout& layout, double y) {
  if (!bar.peak) return "";
  const double x = layout.x(*bar.peak), middle = y + bar_height / 2;
  return fmt::format("<path class=\"peak\" d=\"M{:.1f} {:.1f}H{:.1f}M{:.1f} {:.1f}v{}\"/>",
                     layout.x(length_of(bar)), middle, x, x, y + 1, bar_height - 2);
}

std::string bar_line(const Bar& bar, const Layout& layout, double y) {
  std::string svg = "<g>";
  if (!bar.job.empty()) svg = fmt::format("<g data-job=\"{}\">", escape(bar.job));
  if (!bar.hint.empty()) svg += "<title>" + escape(bar.hint) + "</title>";
  svg += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", layout.left - 6,
                     y + bar_height - 2, escape(bar.label));
  svg += bar_parts(bar, layout, y) + peak_mark(bar, layout, y);
  const double end = layout.x(reach_of(bar)) + 5;
  const double text_at = bar.parts.empty() ? layout.left + 5 : end;
  if (!bar.status.empty())
    svg += fmt::format("<text class=\"status\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", text_at,
                       y + bar_height - 2, escape(bar.status));
  else
    svg += fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", text_at,
                       y + bar_height - 2, escape(bar.text));
  return svg + "</g>";
}

std::string limit_rule(const BarChart& chart, const Layout& layout) {
  if (!chart.limit) return "";
  return fmt::format("<path class=\"limit\" d=\"M{:.1f} 0V{:.1f}\"><title>{}</title></path>",
                     layout.x(*chart.limit), layout.height - axis_height, escape(chart.limit_name));
}

}  // namespace

double cut_above(std::vector<double> lengths) {
  if (lengths.empty()) return 1;
  std::ranges::sort(lengths);
  const double quartile = lengths[(lengths.size() - 1) * 3 / 4 - (lengths.size() > 4 ? 1 : 0)];
  const double longest = lengths.back();
  if (quartile <= 0 || longest <= 4 * quartile) return longest;
  double cut = 0;  // the longest that is not an outlier
  for (double length : lengths)
    if (length <= 4 * quartile) cut = length;
  return 1.15 * cut;
}

bool has_parts(const BarChart& chart) {
  return std::ranges::any_of(chart.bars, [](const Bar& bar) { return !bar.parts.empty(); });
}

std::string bar_chart_svg(const BarChart& chart, double width) {
  const Layout layout = lay_out(chart, width);
  std::string svg = svg_begin(width, layout.height, chart.title) + grid(chart, layout) +
                    limit_rule(chart, layout);
  double y = 4;
  for (const Bar& bar : chart.bars) {
    if (bar.begins_group && &bar != &chart.bars.front()) {
      svg +=
          fmt::format("<path class=\"rule\" d=\"M4 {0:.1f}H{1}\"/>", y + group_gap / 2 - 2, width);
      y += group_gap;
    }
    svg += bar_line(bar, layout, y);
    y += row_height;
  }
  return svg + "</svg>";
}

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
  std::string svg;
  for (double tick : layout.axis.ticks)
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"label\" x=\"{}\" "
        "y=\"{:.1f}\">{}</text>",
        left, layout.y(tick), line_width - right, left - 6, layout.y(tick) + 4,
        layout.axis.tick_text(tick));
  // Names of positions that have room beside each other.
  std::size_t longest = 1;
  for (const std::string& name : chart.positions)
    longest = std::max(longest, name.size());
  const double room = (line_width - left - right) / static_cast<double>(layout.positions);
  const auto every =
      static_cast<std::size_t>(std::ceil((static_cast<double>(longest) + 1) * character / room));
  for (std::size_t i = 0; i < chart.positions.size(); i += every) {
    if (!chart.positions[i].empty())
      svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\">{}</text>", layout.x(i),
                         line_height - bottom + 15, escape(chart.positions[i]));
  }
  svg += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{}\">{}</text>",
                     (left + line_width - right) / 2, line_height - 8, escape(chart.x_name));
  return svg +
         fmt::format("<text class=\"unit start\" x=\"4\" y=\"11\">{}</text>", escape(chart.y_unit));
}

std::string line_path(const Line& line, const LineLayout& layout) {
  std::string path, points;
  bool pen_down = false;
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    if (!line.values[i]) {
      pen_down = false;
      continue;
    }
    const double x = layout.x(i), y = layout.y(*line.values[i]);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x, y);
    pen_down = true;
    if (line.values.size() > most_markers) continue;
    const bool of_job = i < line.jobs.size() && !line.jobs[i].empty();
    points += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"{}><title>{}: "
        "{}</title></circle>",
        line.style, x, y, marker, of_job ? " data-job=\"" + escape(line.jobs[i]) + "\"" : "",
        escape(line.name), significant(*line.values[i]));
  }
  return fmt::format("<path class=\"line {}\" d=\"{}\"/>", line.style, path) + points;
}

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  const LineLayout layout = lay_out_lines(chart);
  std::string svg = svg_begin(line_width, line_height, chart.title);
  svg += frame(chart, layout);
  for (const Line& line : chart.lines)
    svg += line_path(line, layout);
  return svg + "</svg>";
}

}  // namespace triplepoint::report
