// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/power/gpu_power.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

ClockScale clock_scale(const spec::Gpu&, int64_t clock_steps);

/// Under what a device runs a phase.
struct PhaseConditions {
  spec::GpuLoad exchange;  // what lies between this phase and the next
  double host_factor = 1;
  Celsius die;
  Watts limit;
  power::BoardFactors board = {};
  int64_t locked_steps = 0;            // clock steps below the maximum that an operator locked
  std::optional<int64_t> guess = {};   // of the clock index; any gives the same answer
  const ClockScale* clocks = nullptr;  // absent: worked out when needed
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

/// Where the dies of a mean node come to rest at `share` of the power limit: the mean of its seats.
Celsius typical_die(const spec::Job&, double share);

/// What a mean node draws at the wall when each of its devices draws so much, its fans where they
/// come to rest.
Watts typical_node_power(const spec::Job&, Watts per_device);

}  // namespace triplepoint::sim
