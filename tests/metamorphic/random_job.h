// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/spec/job.h"

namespace triplepoint::metamorphic {

/// A job that can be started and fits in memory, drawn with a seed: model, machine, software,
/// layout, sharding, recomputation, overlap, batch, room, limits, faults; four in five train, the
/// rest adapt or answer. Equal seeds give equal jobs.
spec::Job random_job(uint64_t seed);

}  // namespace triplepoint::metamorphic
