// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::trainer {

/// Whether the model's matrices divide evenly over the plan's ranks. Where `workload` rounds up to
/// the busiest rank, a real matrix has no such part.
Result<void> check_shapes(const spec::Job&);

}  // namespace triplepoint::trainer
