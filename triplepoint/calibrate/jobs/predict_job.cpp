// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/predict_job.h"

#include <fmt/format.h>

#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::calibrate {
namespace {

Result<void> check(const spec::Job& job) {
  std::string problems;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job)) {
    if (diagnosis.severity != spec::Diagnosis::Severity::error) continue;
    problems += (problems.empty() ? "" : "; ") + diagnosis.what;
  }
  if (problems.empty()) return {};
  return error(problems);
}

void take_memory(const workload::StageMemory& stage, JobPrediction& prediction) {
  prediction.allocated_peak = stage.total() - stage.reserve;
  prediction.reserved_peak = stage.reserved;
}

void take_first_stage(const workload::StageMemory& stage, JobPrediction& prediction) {
  prediction.first_step = stage.step;
  prediction.first_reserved = stage.reserved;
}

}  // namespace

Result<JobPrediction> predict_job(const spec::Job& job) {
  if (auto checked = check(job); !checked) return tl::unexpected(checked.error());
  JobPrediction prediction;
  const workload::MemoryVerdict verdict = workload::estimate_memory(job);
  take_memory(verdict.stages[static_cast<std::size_t>(verdict.worst_stage)], prediction);
  take_first_stage(verdict.stages.front(), prediction);
  prediction.fits = verdict.fits();
  if (!prediction.fits) return prediction;
  prediction.step_time = sim::steady_step_time(job);
  return prediction;
}

}  // namespace triplepoint::calibrate
