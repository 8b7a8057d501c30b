// SPDX-License-Identifier: Apache-2.0
#include "trainer/machine/machine.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// Those this process may run on.
int64_t core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return sysconf(_SC_NPROCESSORS_ONLN);
  return CPU_COUNT(&set);
}

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

Result<MachineRows> measure_machine(const MachineEffort& effort) {
  const std::unique_ptr<Math> math = make_cpu_math(Rounding::none);
  MachineRows rows;
  rows.processor = processor_name();
  rows.math = cpu_math_name();
  rows.cores = core_count();
  rows.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  rows.call_seconds = measure_call(*math);
  rows.copy_bytes_per_second = measure_copy(effort);
  rows.gemms = measure_gemms(*math, effort);
  rows.attentions = measure_attention(*math, effort);
  rows.links = measure_links(effort);
  rows.trainings = TPT_TRY(measure_trainings(effort));
  return rows;
}

Json json_of(const MachineRows& rows) {
  Json gemms = Json::array(), attentions = Json::array(), links = Json::array(),
       trainings = Json::array();
  for (const GemmRow& row : rows.gemms)
    gemms.push_back({{"m", row.m}, {"n", row.n}, {"k", row.k}, {"seconds", row.seconds}});
  for (const AttentionRow& row : rows.attentions)
    attentions.push_back({{"batch", row.shape.sequences},
                          {"heads", row.shape.heads},
                          {"length", row.shape.length},
                          {"head_dim", row.shape.head_dim},
                          {"backward", row.backward},
                          {"flops", row.flops},
                          {"seconds", row.seconds}});
  for (const LinkRow& row : rows.links)
    links.push_back({{"collective", row.collective},
                     {"ranks", row.ranks},
                     {"bytes", row.bytes},
                     {"core_seconds", row.core_seconds},
                     {"wall_seconds", row.wall_seconds}});
  for (const TrainingRow& row : rows.trainings)
    trainings.push_back({{"model", row.model},
                         {"micro_batch_size", row.micro_batch_size},
                         {"global_batch_size", row.global_batch_size},
                         {"core_seconds", row.core_seconds},
                         {"wall_seconds", row.wall_seconds}});
  return {{"processor", rows.processor},
          {"math", rows.math},
          {"cores", rows.cores},
          {"memory_bytes", rows.memory_bytes},
          {"call_seconds", rows.call_seconds},
          {"copy_bytes_per_second", rows.copy_bytes_per_second},
          {"gemm", gemms},
          {"attention", attentions},
          {"links", links},
          {"training", trainings}};
}

}  // namespace triplepoint::trainer
