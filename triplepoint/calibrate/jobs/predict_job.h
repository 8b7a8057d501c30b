// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::calibrate {

/// What a table of training runs may have measured of a job.
struct JobPrediction {
  bool fits = true;
  Seconds step_time;  // meaningless where the job does not fit
  // On the fullest GPU: at the peak of what tensors hold; and what the allocator then holds.
  Bytes allocated_peak, reserved_peak;
  // On the first stage, as nanotron's rank 0 prints them: what tensors hold while the optimizer
  // steps, and what the allocator holds.
  Bytes first_step, first_reserved;
};

/// Simulates the job to thermal steady state. A job that cannot run as written is an error with all
/// reasons.
Result<JobPrediction> predict_job(const spec::Job&);

}  // namespace triplepoint::calibrate
