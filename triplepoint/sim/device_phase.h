// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "triplepoint/clock/governor.h"
#include "triplepoint/perf/collective_time.h"
#include "triplepoint/power/power.h"
#include "triplepoint/sim/phase_table.h"
#include "triplepoint/sim/wiring.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::sim {

/// What the governor chose for one device in one phase.
///
/// Heat may hold a clock between two steps: then the governor goes to and fro between them, and
/// `share_below` of the phases run one step below `clock_index`.
struct DevicePhase {
  int64_t clock_index = 0;
  double share_below = 0;
  clock::ClockEventReason reason = clock::ClockEventReason::none;
  Seconds duration;  // alone, without waiting for the lockstep group; the mean over both clocks
  Watts power;

  /// What power alone allows, and the die temperatures between which it is that.
  int64_t capped_index = 0;
  Celsius coldest{-std::numeric_limits<double>::infinity()};
  Celsius hottest{std::numeric_limits<double>::infinity()};

  double steps_down() const { return as_real(clock_index) + share_below; }
  bool same_clock(const DevicePhase& other) const {
    return clock_index == other.clock_index && share_below == other.share_below;
  }
};

/// The clocks of a phase and which share of its repetitions each has; the second may have none.
inline std::array<std::pair<int64_t, double>, 2> clocks_of(const DevicePhase& phase) {
  const int64_t below = phase.share_below > 0 ? 1 : 0;
  return {
      {{phase.clock_index, 1 - phase.share_below}, {phase.clock_index + below, phase.share_below}}};
}

/// The clocks of a governor by index, worked out once where many devices share them.
std::vector<power::ClockPoint> clock_scale(const spec::Gpu&, int64_t clock_steps);

/// Under what a device runs a phase.
struct PhaseConditions {
  spec::GpuLoad exchange;  // what lies between this phase and the next
  double host_factor = 1;
  Celsius die;
  Watts limit;
  power::BoardFactors board = {};
  int64_t locked_steps = 0;           // clock steps below the maximum that an operator locked
  std::optional<int64_t> guess = {};  // of the clock index; any gives the same answer
  const std::vector<power::ClockPoint>* clocks = nullptr;  // absent: worked out when needed
};

/// The clock the governor chooses for a phase: the highest at which the mean power of the phase and
/// the exchange after it meets the limit, and the die temperatures at which it is that one. Gaps
/// and sends are shorter than the governor's window, so they are in the mean it holds.
DevicePhase choose_device_phase(const spec::Job&, PhaseTable&, const PhaseConditions&);

/// What lies between a phase and the next, as far as it is known before the step is simulated: the
/// host's gap and the boundary tensor at the rate it has alone.
spec::GpuLoad exchange_load(const spec::Stack&, const perf::CollectiveTime& send, SendMode,
                            workload::ActionKind);

/// A table for a job's governor.
PhaseTable make_phase_table(const spec::Job&, std::vector<GroupEstimate>);

/// Mean power over a load of a device like its type. `clock_ratio` <= 0 means the lowest clock.
Watts typical_power(const spec::Job&, const spec::GpuLoad&, double clock_ratio, Celsius die);

/// Where the dies of a mean node come to rest at `share` of the power limit: the mean of its slots.
Celsius typical_die(const spec::Job&, double share);

/// What a mean node draws at the wall when each of its devices draws so much, its fans where they
/// come to rest.
Watts typical_node_power(const spec::Job&, Watts per_device);

}  // namespace triplepoint::sim
