// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/job.h"

#include "trainer/comm/communicator.h"

namespace triplepoint::trainer {

/// Parameters travel in the precision of the computation.
inline Wire parameter_wire(const spec::Job& job) {
  return job.plan.precision == spec::Precision::fp32 ? Wire::fp32 : Wire::bf16;
}

/// Gradients in the optimizer's.
inline Wire gradient_wire(const spec::Job& job) {
  return job.plan.optimizer.gradient_sync_bytes < 4 ? Wire::bf16 : Wire::fp32;
}

/// The trunk between two stages.
inline Wire boundary_wire(const spec::Job& job) {
  return spec::has_fp32_residual(job) ? Wire::fp32 : parameter_wire(job);
}

}  // namespace triplepoint::trainer
