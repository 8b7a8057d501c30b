// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace triplepoint::report {

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
