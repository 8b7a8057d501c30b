// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace triplepoint::report {

struct HeatRow {
  std::string label;
  std::vector<double> values;  // one per device
  std::string job = {};        // whose row it is; empty: no job's
};

/// Devices from left to right, jobs from top to bottom, colour for the value.
struct HeatMap {
  std::string title, unit;
  std::vector<HeatRow> rows;
  int64_t per_node = 8;     // a wider gap after this many devices
  bool names_nodes = true;  // above the columns
};

/// An SVG drawing with a colour scale. Colours of matplotlib's "inferno": even steps for the eye,
/// readable without telling red from green, and on paper.
std::string heat_map_svg(const HeatMap& map);

/// The colour of a share between 0 and 1, "#rrggbb".
std::string heat_colour(double share);

}  // namespace triplepoint::report
