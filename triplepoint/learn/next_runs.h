// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/learn/posterior.h"

namespace triplepoint::learn {

/// A run that was not measured, and what it would be worth.
struct NextRun {
  std::string change;  // "pipeline_parallel_size 2 in the place of 1"
  std::string of;      // the run that it changes
  int64_t gpus = 0;
  double seconds = 0;    // of a step, as predicted
  double narrowing = 0;  // of the mean variance of forecasts of such runs: 0.4 takes 40 % away
};

/// A job that was measured, and how its time answers.
struct MeasuredJob {
  spec::Job job;
  Evidence evidence;
};

/// The run whose measurement would narrow the forecasts of the measured jobs and of their
/// neighbours most: jobs with microbatch, TP, PP or nodes doubled. First with at most as many GPUs
/// as were used, then, if it is worth more, with twice as many.
std::vector<NextRun> next_runs(const Posterior&, const std::vector<MeasuredJob>&, int threads);

}  // namespace triplepoint::learn
