// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/answers/figures.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

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
