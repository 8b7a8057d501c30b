// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace triplepoint::report {

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

}  // namespace triplepoint::report
