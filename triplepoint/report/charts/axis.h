// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace triplepoint::report {

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

/// The colour of a share between 0 and 1, "#rrggbb". Colours of matplotlib's "inferno": even steps
/// for the eye, readable without telling red from green, and on paper.
std::string heat_colour(double share);

}  // namespace triplepoint::report
