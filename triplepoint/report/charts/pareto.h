// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/answers/figures.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// The jobs that no other job of the group beats in speed without taking more energy, or in energy
/// without being slower; fastest first. A slower job must save half a per cent to be a choice.
std::vector<const StudyRow*> pareto_front(const Group& group);

/// Speed against energy, peak temperature as colour; nothing where energy is not known.
std::optional<Figure> pareto_figure(const Group& group);

using answers::Point;
using answers::ScatterChart;
std::string scatter_chart_svg(const ScatterChart& chart);

}  // namespace triplepoint::report
