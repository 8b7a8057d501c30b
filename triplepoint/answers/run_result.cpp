// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/run_result.h"

namespace triplepoint::answers {

RunResult result_of(const run::Run& run, const metrics::Metrics& metrics) {
  static const metrics::Metrics nothing;
  const bool trained = run::has_trained(run);
  return {.metrics = trained ? metrics : nothing,
          .job = run.manifest.job ? &*run.manifest.job : nullptr,
          .memory = run.memory,
          .memory_limit = run.memory_limit,
          .has_trained = trained,
          .knows_kernels = trained && !run.timeline.empty(),
          .run = &run};
}

}  // namespace triplepoint::answers
