// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/metrics.h"

#include <algorithm>

#include "triplepoint/workload/rank_grid.h"

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

namespace {

using K = const KernelSeconds&;
constexpr KernelPart parts[] = {
    {"compute", "compute", [](K k) { return k.compute; }},
    {"memory", "norms, elementwise, optimizer", [](K k) { return k.memory; }},
    {"send_recv", "send/recv", [](K k) { return k.send_recv; }},
    {"all_reduce", "all-reduce", [](K k) { return k.all_reduce; }},
    {"all_gather", "all-gather", [](K k) { return k.all_gather; }},
    {"reduce_scatter", "reduce-scatter", [](K k) { return k.reduce_scatter; }},
    {"all_to_all", "all-to-all", [](K k) { return k.all_to_all; }},
    {"other", "other", [](K k) { return k.other; }},
    {"waiting", "waiting inside communication", [](K k) { return k.waiting; }},
    {"total", "all kernels", [](K k) { return k.total(); }}};

constexpr int64_t most_ranks = 1 << 20;  // above this, no per-rank table

bool is_positive_and_small(int64_t size) {
  return size > 0 && size <= most_ranks;
}

bool lays_out(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const auto sizes = {plan.tensor_parallel_size,  plan.pipeline_parallel_size,
                      plan.context_parallel_size, plan.expert_parallel_size,
                      plan.expert_tensor_size(),  job.cluster.num_nodes,
                      job.cluster.gpus_per_node};
  if (!std::ranges::all_of(sizes, is_positive_and_small)) return false;
  if (!is_positive_and_small(job.world_size())) return false;
  // Three factors of up to 2^20 each stay below 2^63.
  return job.world_size() % plan.model_parallel_size() == 0;
}

bool has_grid(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  if (!lays_out(job)) return false;
  const int64_t of_stage = job.world_size() / plan.pipeline_parallel_size;
  return of_stage % (plan.expert_tensor_size() * plan.expert_parallel_size) == 0;
}

}  // namespace

std::span<const KernelPart> kernel_parts() {
  return parts;
}

std::span<const KernelPart> kernel_classes() {
  return std::span(parts).first<std::size(parts) - 2>();
}

size_t fullest_stage(std::span<const run::MemoryUse> stages) {
  const auto fullest = std::ranges::max_element(stages, {}, &run::MemoryUse::total);
  return as_size(fullest - stages.begin());
}

std::optional<Seconds> compute_of_slowest_stage(const Metrics& metrics) {
  std::optional<Seconds> longest;
  for (const Stage& stage : metrics.stages)
    longest = std::max(longest.value_or(Seconds()), stage.kernels.compute);
  return longest;
}

bool is_inference(const run::Run& run) {
  return run.manifest.job && spec::is_inference(run.manifest.job->task);
}

std::optional<int64_t> data_parallel_size(const spec::Job& job) {
  if (!lays_out(job)) return std::nullopt;
  return job.data_parallel_size();
}

std::optional<int64_t> num_microbatches(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  if (!lays_out(job) || !is_positive_and_small(plan.micro_batch_size)) return std::nullopt;
  const int64_t at_once = plan.micro_batch_size * job.data_parallel_size();
  if (plan.global_batch_size <= 0 || plan.global_batch_size % at_once != 0) return std::nullopt;
  return plan.global_batch_size / at_once;
}

std::optional<int64_t> expert_group_nodes(const spec::Job& job) {
  if (job.plan.expert_parallel_size < 2 || !has_grid(job)) return std::nullopt;
  return workload::RankGrid(job).shape(spec::GroupKind::expert).nodes;
}

std::vector<int32_t> stages_of_ranks(const spec::Job& job) {
  if (!has_grid(job)) return {};
  const workload::RankGrid grid(job);
  return numbered(job.world_size(), [&](int64_t rank) {
    return static_cast<int32_t>(grid.coordinates(rank).pipeline);
  });
}

}  // namespace triplepoint::metrics
