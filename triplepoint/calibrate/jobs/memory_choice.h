// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/spec/job.h"

namespace triplepoint::calibrate {

/// Sets the least recomputation with which the job fits in memory, and says what it is:
///
///   none; attention scores, where attention keeps them; parts of every layer, one more at a time
///   and from cheap to dear; the fewest layers of each chunk; all layers; all parameters sharded
///   and again from the start, where replicas and a single stage allow it
///
/// Parts are taken in the order of the time that a byte saved costs: norms and the activation of
/// experts read and write once; latent attention's up-projections are thin products that keep three
/// wide results; shared experts and dense MLPs of a mixture of experts are a small part of its
/// work. A dense model's MLP and routed experts free no more per second than whole layers do. If
/// nothing fits, all layers are recomputed. All else of the plan must be set.
std::string choose_recompute(spec::Job&);

/// Sets the largest power of two up to 64 that divides the batch of a replica and fits in memory
/// with the plan's recompute; 1 if none fits.
std::string choose_micro_batch(spec::Job&);

}  // namespace triplepoint::calibrate
