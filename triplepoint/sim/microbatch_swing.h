// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

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
