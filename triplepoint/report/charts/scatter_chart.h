// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace triplepoint::report {

struct Point {
  double x = 0, y = 0;
  std::optional<double> colour;  // absent: grey
  std::string job, hint;
  std::string label;      // beside it; empty: none
  bool on_front = false;  // ringed, and joined to the others of the front
};

/// Points over two numbers, a third one as colour. An axis whose numbers lie far apart is
/// logarithmic.
struct ScatterChart {
  std::string title, x_unit, y_unit, colour_unit;
  std::vector<Point> points;
};

std::string scatter_chart_svg(const ScatterChart& chart);

}  // namespace triplepoint::report
