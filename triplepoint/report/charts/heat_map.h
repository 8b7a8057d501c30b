// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/answers/figures.h"

namespace triplepoint::report {

using answers::HeatMap;
using answers::HeatRow;

/// An SVG drawing with a colour scale. Colours of matplotlib's "inferno": even steps for the eye,
/// readable without telling red from green, and on paper.
std::string heat_map_svg(const HeatMap& map);

/// The colour of a share between 0 and 1, "#rrggbb".
std::string heat_colour(double share);

}  // namespace triplepoint::report
