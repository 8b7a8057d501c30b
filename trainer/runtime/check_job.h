// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::trainer {

/// Whether the model's matrices divide evenly over the plan's ranks. Where `workload` rounds up to
/// the busiest rank, a real matrix has no such part.
Result<void> check_shapes(const spec::Job&);

/// Whether the trainer can run this job; the reason, and what to try, where not.
Result<void> check_job(const spec::Job&);

/// Bytes that all ranks together need, as workload::estimate_memory has it.
double predicted_bytes(const spec::Job&);

/// Refuses a job that does not fit into `available` bytes when `ranks_here` of its ranks run on
/// this machine.
Result<void> check_memory(const spec::Job&, int64_t ranks_here, double available);

/// What the system would give to new programs without swapping (MemAvailable); nothing if it does
/// not say.
double available_memory();

}  // namespace triplepoint::trainer
