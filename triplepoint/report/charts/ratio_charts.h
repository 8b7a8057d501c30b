// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// Ratios of one kind of row: between `low` and `high` lie most, `middle` is their median.
struct RangeRow {
  std::string label;
  double low = 1, middle = 1, high = 1;
  struct Band {
    double low = 1, high = 1;
  };
  std::optional<Band> band;  // where they were expected
  std::string text, hint;    // at the right; said when pointed at
};

/// Ratios around 1 on a logarithmic axis, so that twice and half are equally far.
struct RangeChart {
  std::string title, unit;
  std::vector<RangeRow> rows;
};

std::string range_chart_svg(const RangeChart& chart);

/// One lying bar to the left (less) or right (more) of a middle line.
struct DifferenceBar {
  std::string label;
  double relative = 0;  // of the base
  std::string text;     // at its end
  int judgement = 0;    // 1: good news, -1: bad, 0: neither
  bool begins_group = false;
};

/// Bars beyond 100 % are cut at the edge; their text says how long they are. `unit`: below the
/// axis.
std::string difference_chart_svg(const std::string& title, const std::string& unit,
                                 const std::vector<DifferenceBar>& bars);
std::vector<LegendEntry> difference_legend();

}  // namespace triplepoint::report
