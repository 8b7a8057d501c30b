// SPDX-License-Identifier: Apache-2.0
// Charts of lying rows: a label, what is drawn beside it over one axis, a text at its end.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/svg.h"

namespace triplepoint::report {
namespace {

constexpr double row_height = 19, bar_height = 13, group_gap = 7, axis_height = 36, top = 4;

struct Row {
  std::string label;
  bool begins_group = false;  // a gap and a rule above
  std::string job = {}, hint = {};
};

struct Tick {
  double value = 0;
  std::string words;
  const char* look = "grid";
};

/// Where things are in one chart, and what it draws of each row.
struct Frame {
  double width = 460, left = 0, right = 52;  // widths of the drawing and of its margins
  std::vector<Row> rows;
  std::vector<Tick> ticks;
  std::string unit;                     // below the axis
  std::function<double(double)> share;  // of a value between the ends of the axis
  double plot() const { return width - left - right; }
  double x(double value) const { return left + plot() * std::clamp(share(value), 0.0, 1.0); }
  double bottom() const {
    double y = top + row_height * static_cast<double>(rows.size());
    for (const Row& row : rows)
      y += row.begins_group && &row != &rows.front() ? group_gap : 0;
    return y;
  }
};

/// Room for the longest label, at most `most`.
double left_margin(const std::vector<Row>& rows, double most) {
  std::size_t longest = 0;
  for (const Row& row : rows)
    longest = std::max(longest, row.label.size());
  return std::min(most, svg::label_room(longest));
}

/// `draw`: what stands in row `i` whose middle is at `y`, its text included; `beneath`: what lies
/// behind all rows.
std::string rows_svg(const Frame& frame, const std::string& title, const std::string& beneath,
                     const std::function<std::string(std::size_t i, double y)>& draw) {
  const double bottom = frame.bottom();
  std::string drawing = svg_begin(frame.width, bottom + axis_height, title);
  for (const Tick& tick : frame.ticks)
    drawing += svg::tick_down(frame.x(tick.value), 0, bottom, tick.words, tick.look);
  drawing += svg::text("unit", frame.left + frame.plot() / 2, bottom + 30, frame.unit) + beneath;
  double y = top + bar_height / 2;
  for (std::size_t i = 0; i < frame.rows.size(); ++i, y += row_height) {
    const Row& row = frame.rows[i];
    if (row.begins_group && i > 0) {
      const double rule = y - bar_height / 2 + group_gap / 2 - 2;
      drawing += svg::path("rule", svg::point(4, rule, false) + "H" + svg::number(frame.width));
      y += group_gap;
    }
    drawing += svg::group(row.job, row.hint) +
               svg::text("label", frame.left - 6, y + bar_height / 2 - 2, row.label) + draw(i, y) +
               "</g>";
  }
  return drawing + "</svg>";
}

std::string end_text(const char* look, double x, double y, const std::string& words,
                     const char* attributes = "") {
  return svg::text(look, x, y + bar_height / 2 - 2, words, attributes);
}

// ---- bars

double length_of(const Bar& bar) {
  double sum = 0;
  for (const BarPart& part : bar.parts)
    sum += part.value;
  return sum;
}

/// The longest thing that is drawn of a bar.
double reach_of(const Bar& bar) {
  return std::max(length_of(bar), bar.peak.value_or(0));
}

double right_margin(const BarChart& chart) {
  constexpr double least = 52;
  std::size_t longest = 0;
  for (const Bar& bar : chart.bars)
    longest = std::max({longest, bar.text.size(), bar.parts.empty() ? 0 : bar.status.size()});
  return std::max(least, svg::label_room(longest));
}

Axis axis_of(const BarChart& chart, double plot) {
  std::vector<double> lengths;
  for (const Bar& bar : chart.bars)
    if (bar.status.empty() || !bar.parts.empty()) lengths.push_back(reach_of(bar));
  double highest = chart.cuts || lengths.empty() ? cut_above(lengths) : std::ranges::max(lengths);
  if (chart.limit) highest = std::max(highest, *chart.limit);
  // A tick of four digits takes 40 units with the gap to the next.
  const int ticks = std::clamp(static_cast<int>(plot / 40), 2, 6);
  return chart.low != 0 ? axis_between(chart.low, highest, ticks) : axis_from_zero(highest, ticks);
}

std::string bar_drawing(const Bar& bar, const Frame& frame, const Axis& axis, double y) {
  std::string drawing;
  double from = 0;
  for (const BarPart& part : bar.parts) {
    const double begin = frame.x(from), end = frame.x(from + part.value);
    from += part.value;
    if (end - begin >= 0.05)
      drawing +=
          svg::box(part.style, begin, y - bar_height / 2, end - begin, bar_height, part.name);
  }
  if (from > axis.high * (1 + 1e-9))  // two slanted strokes: this bar goes on
    drawing += svg::path("cut", svg::point(frame.x(axis.high) - 10, y + bar_height / 2 + 2, false) +
                                    fmt::format("l4 -{0}h4l-4 {0}z", bar_height + 4));
  if (bar.peak)
    drawing += svg::path("peak", svg::point(frame.x(from), y, false) + "H" +
                                     svg::number(frame.x(*bar.peak)) +
                                     svg::point(frame.x(*bar.peak), y - bar_height / 2 + 1, false) +
                                     "v" + svg::number(bar_height - 2));
  const double end = bar.parts.empty() ? frame.left : frame.x(reach_of(bar));
  return drawing + (bar.status.empty() ? end_text("value", end + 5, y, bar.text)
                                       : end_text("status", end + 5, y, bar.status));
}

}  // namespace

double cut_above(std::vector<double> lengths) {
  if (lengths.empty()) return 1;
  std::sort(lengths.begin(), lengths.end());
  const double quartile = lengths[(lengths.size() - 1) * 3 / 4 - (lengths.size() > 4 ? 1 : 0)];
  const double longest = lengths.back();
  if (quartile <= 0 || longest <= 4 * quartile) return longest;
  double cut = 0;  // the longest that is not an outlier
  for (double length : lengths)
    if (length <= 4 * quartile) cut = length;
  return 1.15 * cut;
}

std::string bar_chart_svg(const BarChart& chart, double width) {
  Frame frame{.width = width, .right = right_margin(chart), .unit = chart.unit};
  for (const Bar& bar : chart.bars)
    frame.rows.push_back({bar.label, bar.begins_group, bar.job, bar.hint});
  frame.left = left_margin(frame.rows, width / 2);
  const Axis axis = axis_of(chart, frame.plot());
  frame.share = [&](double value) { return axis.share(value); };
  for (const double tick : axis.ticks)
    frame.ticks.push_back({tick, axis.tick_text(tick)});
  const std::string limit = !chart.limit ? ""
                                         : svg::path("limit",
                                                     svg::point(frame.x(*chart.limit), 0, false) +
                                                         "V" + svg::number(frame.bottom()),
                                                     chart.limit_name);
  return rows_svg(frame, chart.title, limit, [&](std::size_t i, double y) {
    return bar_drawing(chart.bars[i], frame, axis, y);
  });
}

// ---- ratios around 1

std::string range_chart_svg(const RangeChart& chart) {
  constexpr double line_height = 3, most_left = 190;
  Frame frame{.unit = chart.unit};
  double farthest = std::log(1.5);
  for (const RangeRow& row : chart.rows) {
    frame.rows.push_back({row.label, false, "", row.hint});
    const RangeRow::Band band = row.band.value_or(RangeRow::Band());
    for (const double ratio : {row.low, row.high, band.low, band.high})
      farthest = std::max(farthest, std::abs(std::log(ratio)));
  }
  frame.left = left_margin(frame.rows, most_left);
  const double reach = std::min(farthest, std::log(4.0)) * 1.04;
  frame.share = [reach](double ratio) { return 0.5 + 0.5 * std::log(ratio) / reach; };
  double last = -1e9;
  for (const double tick : {0.25, 0.33, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0}) {
    const bool has_room = frame.x(tick) - last > 34;
    if (std::abs(std::log(tick)) > reach || (!has_room && tick != 1)) continue;
    last = frame.x(tick);
    frame.ticks.push_back({tick, fmt::format("{:g}", tick), tick == 1 ? "peak" : "grid"});
  }
  return rows_svg(frame, chart.title, "", [&](std::size_t i, double y) {
    const RangeRow& row = chart.rows[i];
    const auto band = [&](const char* look, double low, double high, double height) {
      const double from = frame.x(low), to = frame.x(high);
      return svg::box(look, from, y - height / 2, std::max(1.0, to - from), height, "", "rx=\"2\"");
    };
    return (row.band ? band("expected", row.band->low, row.band->high, bar_height) : "") +
           band("s0", row.low, row.high, line_height) + svg::dot("s0", frame.x(row.middle), y, 4) +
           end_text("value", frame.left + frame.plot() + 6, y, row.text);
  });
}

// ---- differences

std::vector<LegendEntry> difference_legend() {
  return {{"better", "better"}, {"worse", "worse"}, {"neither", "neither"}};
}

std::string difference_chart_svg(const DifferenceChart& chart) {
  constexpr double text_room = 62, most_left = 200;
  Frame frame{.right = text_room, .unit = chart.unit};
  double most = 0, reach = 1;  // to a round share on both sides
  for (const DifferenceBar& bar : chart.bars) {
    frame.rows.push_back({bar.label, bar.begins_group});
    most = std::max(most, std::abs(bar.relative));
  }
  for (const double round : {0.5, 0.2, 0.1, 0.05, 0.02})
    if (most <= round) reach = round;
  frame.left = left_margin(frame.rows, most_left);
  // Texts stand at both ends.
  const double margin = text_room / frame.plot();
  frame.share = [=](double relative) {
    const double half = 0.5 * (1 - margin);
    return margin + half * (1 + std::clamp(relative / reach, -1.0, 1.0));
  };
  for (const double value : {-reach, 0.0, reach})
    frame.ticks.push_back({value, fmt::format("{}{:g} %", value > 0 ? "+" : "", 100 * value),
                           value == 0 ? "peak" : "grid"});
  return rows_svg(frame, chart.title, "", [&](std::size_t i, double y) {
    const DifferenceBar& bar = chart.bars[i];
    const double end = frame.x(bar.relative), middle = frame.x(0);
    const char* look = bar.judgement > 0 ? "better" : bar.judgement < 0 ? "worse" : "neither";
    return svg::box(look, std::min(end, middle), y - bar_height / 2, std::abs(end - middle),
                    bar_height) +
           (bar.relative < 0 ? end_text("value", end - 5, y, bar.text, "text-anchor=\"end\"")
                             : end_text("value", end + 5, y, bar.text));
  });
}

}  // namespace triplepoint::report
