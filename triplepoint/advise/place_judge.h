// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/placement.h"

namespace triplepoint::advise {

/// One pipeline stage of a placement at thermal steady state.
struct PlacedStage {
  int64_t stage = 0, layers = 0;
  double coldness = 0;  // mean group of its devices; 0: all of the coldest
  double busy_s = 0;    // kernels of a step, without waiting
  double clock_mhz = 0, temperature_c = 0, power_w = 0;
};

/// What the simulator says of a placement.
struct PlacementOutcome {
  bool fits = false;     // in memory; nothing else is known if not
  double step_time = 0;  // s
  double tokens_per_s = 0, tokens_per_j = 0, samples_per_s_mj = 0;
  double energy = 0;    // J, all devices, one step
  double gap = 0;       // K: mean of the hottest group less that of the coldest
  double variance = 0;  // K2, of the devices' mean temperatures
  double mean_c = 0, peak_c = 0;
  double throttled = 0;  // share of time below the requested clock
  std::vector<PlacedStage> stages;
};
PlacementOutcome judge_placement(const spec::Job&, const ColdMap&);
/// The step alone, s; nothing if it does not fit in memory.
std::optional<double> judge_time(const spec::Job&);

/// Where a placement's step differs from another's, in seconds. The terms add up to the difference:
///
///   T(machine, plan): step at thermal steady state
///   order  = T(alike, base layers in the plan's rank order) - T(alike, base)
///   layers = T(alike, plan) - T(alike, base layers in the plan's rank order)
///   heat   = [T(slots, plan) - T(slots, base)] - [T(alike, plan) - T(alike, base)]
///   boards = [T(real, plan) - T(real, base)] - [T(slots, plan) - T(slots, base)]
///
/// alike: every slot is the mean slot, every board and host the mean one, so that devices may be
/// exchanged freely. slots: slots, rooms and sinks as they are. real: boards, hosts and the
/// governor's clock steps as they are, too (the others have steps of an eighth). So `layers` is the
/// price of imbalance on a machine without hot slots, and `heat` what clocks give back because of
/// who sits where.
struct PlacementReason {
  double order = 0, layers = 0, heat = 0, boards = 0;  // s; negative: gained
  double total() const { return order + layers + heat + boards; }
};
PlacementReason explain_placement(const spec::Job& placed, const spec::Job& base);

/// The stage that works longest, for which the others wait.
const PlacedStage& critical_stage(const PlacementOutcome&);

/// The machines of PlacementReason: alike, and slots.
spec::Job on_alike_machine(spec::Job);
spec::Job on_mean_boards(spec::Job);

}  // namespace triplepoint::advise
