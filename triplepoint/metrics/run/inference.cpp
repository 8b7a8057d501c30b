// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/inference.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::metrics {

InferenceSpeed inference_speed(spec::Task task, const Metrics& metrics) {
  InferenceSpeed speed;
  if (task == spec::Task::prefill) {
    speed.prompt_tokens_per_s = metrics.tokens_per_second;
    speed.time_to_first_token = metrics.step_time;
  }
  if (task == spec::Task::decode) {
    speed.generated_tokens_per_s = metrics.tokens_per_second;
    speed.time_per_output_token = metrics.step_time;
  }
  return speed;
}

bool is_inference(const run::Run& run) {
  return run.manifest.job && spec::is_inference(run.manifest.job->task);
}

}  // namespace triplepoint::metrics
