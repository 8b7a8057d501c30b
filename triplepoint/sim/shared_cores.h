// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <vector>

#include "triplepoint/spec/op.h"

#include "triplepoint/sim/simulate_schedule.h"

namespace triplepoint::sim {

/// A lockstep group of processes on the cores of one machine: while its action computes, each rank
/// wants a core; while it waits for a link, none.
struct GroupOnCores {
  int64_t ranks = 1;
  std::vector<std::array<Seconds, action_kind_count>> waiting;  // [chunk][ActionKind], of duration
};

/// Simulates pipelines whose ranks share `cores` (processor sharing): an action of duration d
/// alone, of which it waits w for links, goes on at the rate
///
///   dx/dt = 1 / ((d - w) / r + w),   r = max { r <= 1 :  sum over lockstep groups at work
///                                              ranks (d - w) dx/dt <= cores }
///
/// so equal shares go to all that compute now, and those that wait take nothing. With cores for
/// all, r = 1. Sends take what they take alone: an emulated link is no core's work.
/// Holds where slices of time are short beside an action, and ranks of a lockstep group wait for
/// each other often. Source: Kleinrock, Queueing Systems 2, 1976, section 4.4.
std::vector<std::vector<StageTimeline>> simulate_on_shared_cores(
    std::span<const std::vector<StageTimes>> pipelines,
    std::span<const std::vector<GroupOnCores>> groups, const Wiring&, const ScheduleRules&,
    int64_t cores);

/// Of a phase: the part in which it waits for the fabric.
Seconds waiting_of(const spec::GpuLoad& load, Seconds duration);

}  // namespace triplepoint::sim
