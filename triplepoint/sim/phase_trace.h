// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/power/power_trace.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// One kind of phase of a lockstep group at one clock.
struct PhaseAtClock {
  const LockstepGroup& group;
  const PhaseUse& use;
  int64_t clock_index = 0;
};

/// Its power over time: kernels and exposed collectives in order, waits for the host; collectives
/// that hide behind kernels run evenly over all of a layer. Equal layers are repeated no more often
/// than windows of this length can tell. Layers are recomputed and differentiated in turn: groups
/// of one name repeat side by side.
power::PowerTrace phase_trace(StepModel&, const PhaseAtClock&, Seconds window);

/// Of its kernels and collectives, each alone and with what hides behind it: on every board one of
/// these draws most.
std::vector<power::BoardPower> highest_kernels(StepModel&, const PhaseAtClock&);

/// An op alone, in this time.
spec::GpuLoad load_of(const OpEstimate&, Seconds time);

/// By how much power swings while a microbatch passes, before any sensor averages.
///
///   swing = mean over stages of Q95 - Q5,   Q: quantiles over time of the power of the ops
///
/// of one pass of each kind (forward, backward, what is recomputed), each at the clock of its
/// phase. An op is a kernel, an exposed collective or a gap of the host, with its share of the
/// collectives that hide behind it. Waits between passes are no part of it. One device a stage, as
/// the timeline has. The job must have power coefficients.
Watts microbatch_swing(StepModel&, const CoupledStep&);

}  // namespace triplepoint::sim
