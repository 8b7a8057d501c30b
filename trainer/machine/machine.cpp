// SPDX-License-Identifier: Apache-2.0
#include "trainer/machine/machine.h"

#include <fstream>

#include <sched.h>
#include <unistd.h>

#include "triplepoint/base/json.h"

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

}  // namespace

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
