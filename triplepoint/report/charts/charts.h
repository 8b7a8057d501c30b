// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/answers/figures.h"
#include "triplepoint/report/charts/axis.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

using answers::Bar;
using answers::BarChart;
using answers::BarPart;
using answers::Line;
using answers::LineChart;

/// An SVG drawing. One bar that is many times longer than the others is cut, and shows it.
/// `width`: of the drawing, in its own units; about one CSS pixel each.
std::string bar_chart_svg(const BarChart& chart, double width = 360);

/// Beyond this, bars are cut: four times the upper quartile, unless all are below twice that.
double cut_above(std::vector<double> lengths);

std::string line_chart_svg(const LineChart& chart);

using answers::HeatMap;
using answers::HeatRow;

/// An SVG drawing with a colour scale.
std::string heat_map_svg(const HeatMap& map);

using answers::DifferenceBar;
using answers::DifferenceChart;
using answers::RangeChart;
using answers::RangeRow;

std::string range_chart_svg(const RangeChart& chart);

/// Bars beyond 100 % are cut at the edge; their text says how long they are.
std::string difference_chart_svg(const DifferenceChart& chart);
std::vector<LegendEntry> difference_legend();

}  // namespace triplepoint::report
