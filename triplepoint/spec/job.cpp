// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

Result<void> require_training(const Job& job, std::string_view what) {
  if (!is_inference(job.task)) return {};
  return error(
      "{} for training only (the job's task is {}); simulate it, or set task to pretrain or lora",
      what, name_of(job.task));
}

Result<void> require_valid(const Job& job) {
  std::string problems;
  for (const Diagnosis& diagnosis : diagnose(job)) {
    if (diagnosis.severity != Diagnosis::Severity::error) continue;
    problems += (problems.empty() ? "" : "\n  ") + diagnosis.what;
  }
  if (problems.empty()) return {};
  return error("job {}: {}", job.name, problems);
}

namespace {

void use_slots(Chassis& chassis, std::size_t count) {
  if (chassis.slots.size() > count) chassis.slots.resize(count);
  for (Slot& slot : chassis.slots)
    if (slot.upstream_heating.size() > count) slot.upstream_heating.resize(count);
}

}  // namespace

void use_devices(Cluster& cluster, int64_t devices) {
  use_slots(cluster.chassis, as_size(devices));
  if (cluster.liquid_chassis) use_slots(*cluster.liquid_chassis, as_size(devices));
  const bool of_one_node = cluster.scale_up.domain_size == cluster.gpus_per_node;
  cluster.gpus_per_node = devices;
  if (of_one_node) cluster.scale_up.domain_size = devices;
}

std::string_view broken_condition_of_expert_overlap(const Model& model, const Plan& plan) {
  if (!model.moe || plan.expert_parallel_size == 1) return "with expert parallelism";
  if (plan.pipeline_parallel_size > 1 && plan.virtual_pipeline_size == 1)
    return "with model chunks where there are pipeline stages";
  if (plan.recompute == Recompute::full) return "without full recompute";
  if (plan.recomputes(RecomputeModule::moe)) return "without recompute of the experts";
  if (plan.precision == Precision::fp32) return "in 16 bits";
  if (model.prediction_depths() > 1) return "with at most one predicted depth";
  return "";
}

}  // namespace triplepoint::spec
