// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace triplepoint::report {

/// A scale from 0 (or a lowest value) to a round number, with round ticks.
struct Axis {
  double low = 0, high = 1;
  std::vector<double> ticks;

  /// Where a value lies between the ends, 0 to 1, clamped.
  double share(double value) const;
  /// The text of a tick: no more digits than its step needs.
  std::string tick_text(double tick) const;
};

/// Ticks at 1, 2, 2.5 or 5 times a power of ten, at most `most` steps.
Axis axis_from_zero(double highest, int most = 6);
Axis axis_between(double lowest, double highest, int most = 6);

/// One piece of a bar.
struct BarPart {
  double value = 0;
  std::string style;  // class of the style sheet
  std::string name;   // said when pointed at
};

/// One line of a chart of lying bars.
struct Bar {
  std::string label = {};
  std::vector<BarPart> parts;  // drawn one after the other
  std::optional<double> peak;  // a mark beyond the bar
  std::string text;            // stands at the end
  std::string status;          // instead of a bar: "out of memory"
  bool begins_group = false;   // a gap and a rule above
  std::string job = {};        // whose bar it is; empty: no job's
  std::string hint = {};       // said when pointed at
};

struct BarChart {
  std::string title;  // for screen readers
  std::string unit;   // below the axis: "power (W)"
  std::vector<Bar> bars;
  std::optional<double> limit;  // a rule across all bars
  std::string limit_name;
  double low = 0;    // where the axis begins: 0 unless the bars are points on a scale
  bool cuts = true;  // one bar many times longer than the others is cut; not where bars are shares
};

/// An SVG drawing. One bar that is many times longer than the others is cut, and shows it.
std::string bar_chart_svg(const BarChart& chart);

/// Beyond this, bars are cut: four times the upper quartile, unless all are below twice that.
double cut_above(std::vector<double> lengths);

struct Line {
  std::string name;
  std::string style;                          // class of the style sheet: stroke and fill
  std::vector<std::optional<double>> values;  // one per position; absent: a gap
  std::vector<std::string> jobs = {};         // whose value it is; empty: no job's
};

/// Values over a few named positions: microbatch sizes, stages.
struct LineChart {
  std::string title, x_name, y_unit;
  std::vector<std::string> positions;
  std::vector<Line> lines;
  bool from_zero = true;
};

std::string line_chart_svg(const LineChart& chart);

}  // namespace triplepoint::report
