// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/sim/schedule_engine.h"
#include "triplepoint/sim/wiring.h"

namespace triplepoint::sim {

/// Simulates the programs of all pipelines, [pipeline][stage].
///
/// An action begins when its stage is free and its input has arrived, `gap` later it works, then it
/// sends. A send takes its latency, then its data flow over the boundary's links, all ranks of the
/// lockstep group at one rate; flows in flight share links max-min fairly (perf/fair_share.h), and
/// rates change at once whenever a flow begins or ends.
///   arrival: integral of rate from (begin of send + latency) to arrival = bytes_per_rank
/// What happens at one moment happens together, so no order of events enters the result. Where no
/// link can bind (see Wiring) nothing needs events: actions follow each other's dependencies, with
/// the same bits as result.
///
/// Deterministic, for any number of threads. Oracles: workload::bubble_fraction for equal stages
/// without communication; a solution of all rates at every event for flows. Model and costs:
/// docs/models/schedules.md.
std::vector<std::vector<StageTimeline>> simulate_schedule(
    std::span<const std::vector<StageTimes>> pipelines, const Wiring& wiring,
    const ScheduleRules& rules);

/// The same, in place, where some pipelines' times have changed: simulates those and what meets
/// them on links. `changed`: by pipeline, 0 or 1.
struct ScheduleUpdate {
  std::span<const std::vector<StageTimes>> pipelines;
  std::span<const char> changed;
  int threads = 1;
};
void update_schedule(const ScheduleUpdate&, const Wiring& wiring, const ScheduleRules& rules,
                     std::vector<std::vector<StageTimeline>>& timelines);

}  // namespace triplepoint::sim
