// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/units.h"

#include "triplepoint/metrics/run/step_history.h"

namespace triplepoint::advise {

/// One cause of a slow step, and what it costs.
struct GapPart {
  std::string cause;     // "heat", "overlap_gradient", "periodic": stable names for programs
  std::string what;      // "GPU 3 slows the others: 1,008 MHz against 1,850 MHz (power limit, ...)"
  std::string seen_in;   // "recording", "traces", "steps"
  Seconds cost;          // of a mean step
  bool at_most = false;  // the evidence gives an upper bound only
  std::optional<double> probability;  // that a pattern of steps is more than chance
  std::string advice;                 // what to do
  std::string confirm = {};           // what a sensor would have to show
};

/// Of idle time whose cause the traces do not tell.
inline constexpr std::string_view unknown_cause = "idle";

/// Whose the numbers are that a run is compared with: before "are 1,850 MHz".
inline constexpr std::string_view whose(bool against_recording) {
  return against_recording ? "the other recording's" : "predicted";
}

/// "2.31 s", "4.04 ms".
std::string time_of(Seconds);

/// A pattern as a part; `base`: an undisturbed step.
GapPart part_of(const metrics::StepPattern&, Seconds base);

}  // namespace triplepoint::advise
