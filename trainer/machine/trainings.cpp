// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "trainer/machine/machine.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

/// One rank, four microbatches: no communication at all.
Result<spec::Job> job_of(const std::string& model, int64_t micro_batch_size) {
  spec::Job job = TPT_TRY(spec::parse_job(spec::default_library(),
                                          fmt::format(R"(
model = "{}"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
micro_batch_size = {}
global_batch_size = 8
precision = "fp32"
optimizer = "fp32_adamw"
)",
                                                      model, micro_batch_size),
                                          "triplepoint-machine"));
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  return job;
}

}  // namespace

Result<std::vector<TrainingRow>> measure_trainings(const MachineEffort& effort) {
  std::vector<TrainingRow> rows;
  for (const char* model : {"tiny-llama", "tiny-gpt", "tiny-mixtral"})
    for (const int64_t micro_batch_size : {1, 2, 4}) {
      const spec::Job job = TPT_TRY(job_of(model, micro_batch_size));
      TrainSettings settings;
      settings.steps = effort.steps;
      settings.peak_flops = 1;  // not asked for
      TrainingRow row{model, micro_batch_size, job.plan.global_batch_size, 1e9, 1e9};
      double before = 0;
      const OnStep on_step = [&](const StepResult& step, const TrainReport&) {
        const double now = process_core_seconds();
        if (before > 0) row.core_seconds = std::min(row.core_seconds, now - before);
        if (before > 0) row.wall_seconds = std::min(row.wall_seconds, step.seconds);
        before = now;
      };
      TPT_TRY(train_with_threads(job, settings, {endpoint_settings(job, 60), {}, {}}, on_step));
      rows.push_back(row);
    }
  return rows;
}

}  // namespace triplepoint::trainer
