// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// The jobs that no other job of the group beats in speed without taking more energy, or in energy
/// without being slower; fastest first. A slower job must save half a per cent to be a choice.
std::vector<const StudyRow*> pareto_front(const Group& group);

/// Speed against energy, peak temperature as colour; nothing where energy is not known.
std::optional<Figure> pareto_figure(const Group& group);

struct Point {
  double x = 0, y = 0;
  std::optional<double> colour;  // absent: grey
  std::string job, hint;
  std::string label;       // beside it; empty: none
  bool on_front = false;   // ringed, and joined to the others of the front
  std::string style = {};  // class of the style sheet, instead of a colour
};

/// Points over two numbers, a third one as colour. An axis whose numbers lie far apart is
/// logarithmic.
struct ScatterChart {
  std::string title, x_unit, y_unit, colour_unit;
  std::vector<Point> points;
  bool diagonal = false;  // both axes alike; lines where y = x, and at twice and half of it
};

std::string scatter_chart_svg(const ScatterChart& chart);

}  // namespace triplepoint::report
