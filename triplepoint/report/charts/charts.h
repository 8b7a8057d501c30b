// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/answers/figures.h"

namespace triplepoint::report {

using answers::Bar;
using answers::BarChart;
using answers::BarPart;
using answers::Line;
using answers::LineChart;

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

/// An SVG drawing. One bar that is many times longer than the others is cut, and shows it.
std::string bar_chart_svg(const BarChart& chart);

/// Beyond this, bars are cut: four times the upper quartile, unless all are below twice that.
double cut_above(std::vector<double> lengths);

std::string line_chart_svg(const LineChart& chart);

}  // namespace triplepoint::report
