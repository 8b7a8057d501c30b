// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/train_job.h"

#include <fmt/format.h>

#include "triplepoint/spec/job.h"

namespace triplepoint::study {

std::string beginning_of_training(bool user_splits) {
  return fmt::format(R"(model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
{}sharding = "none"
micro_batch_size = 2
global_batch_size = 32
precision = "fp32"
optimizer = "fp32_adamw"
)",
                     user_splits ? "" : "tensor_parallel_size = 2\npipeline_parallel_size = 2\n");
}

Result<void> spread_ranks(spec::Job& job, int64_t ranks) {
  if (ranks < 1 || ranks > 4096)
    return error(fmt::format("{} ranks (processes of one machine); give 1 to 4096", ranks));
  spec::Cluster& cluster = job.cluster;
  if (ranks == cluster.num_gpus()) return {};
  if (ranks % cluster.num_nodes != 0) cluster.num_nodes = 1;
  cluster.gpus_per_node = ranks / cluster.num_nodes;
  cluster.scale_up.domain_size = cluster.gpus_per_node;
  job.plan.device_order.clear();
  job.plan.node_order.clear();
  if (!cluster.chassis.slots.empty())
    cluster.chassis.slots.assign(static_cast<size_t>(cluster.gpus_per_node), {});
  return {};
}

Result<void> require_trainable(const spec::Job& job) {
  if (spec::is_inference(job.task))
    return error(
        fmt::format("job {}: its task is {} (this command trains); simulate it, or set task to "
                    "pretrain or lora",
                    job.name, spec::name_of(job.task)));
  std::string problems;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job)) {
    const bool only_for_predictions = diagnosis.code == spec::DiagnosisCode::unsupported;
    if (diagnosis.severity != spec::Diagnosis::Severity::error || only_for_predictions) continue;
    problems += (problems.empty() ? "" : "\n  ") + diagnosis.what;
  }
  if (problems.empty()) return {};
  return error(fmt::format("job {}: {}", job.name, problems));
}

}  // namespace triplepoint::study
