// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/answers/figures.h"
#include "triplepoint/report/pages/html.h"

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
/// `width`: of the drawing, in its own units; about one CSS pixel each.
std::string bar_chart_svg(const BarChart& chart, double width = 360);
/// Whether any bar is drawn.
bool has_parts(const BarChart& chart);

/// Beyond this, bars are cut: four times the upper quartile, unless all are below twice that.
double cut_above(std::vector<double> lengths);

std::string line_chart_svg(const LineChart& chart);

using answers::HeatMap;
using answers::HeatRow;

/// An SVG drawing with a colour scale. Colours of matplotlib's "inferno": even steps for the eye,
/// readable without telling red from green, and on paper.
std::string heat_map_svg(const HeatMap& map);

/// The colour of a share between 0 and 1, "#rrggbb".
std::string heat_colour(double share);

using answers::DifferenceBar;
using answers::RangeChart;
using answers::RangeRow;

std::string range_chart_svg(const RangeChart& chart);

/// Bars beyond 100 % are cut at the edge; their text says how long they are. `unit`: below the
/// axis.
std::string difference_chart_svg(const std::string& title, const std::string& unit,
                                 const std::vector<DifferenceBar>& bars);
std::vector<LegendEntry> difference_legend();

}  // namespace triplepoint::report
