// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/neighbours.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/search/layout_scan.h"
#include "triplepoint/search/plan_text.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::search {
namespace {

using Plans = std::vector<std::pair<std::string, spec::Plan>>;

/// What a size rules out goes with it: nothing else of the plan changes.
spec::Plan settled(spec::Plan plan) {
  plan.layers_per_stage.clear();
  if (plan.tensor_parallel_size == 1) plan.sequence_parallel = plan.overlap_tensor = false;
  if (plan.expert_parallel_size == 1) plan.overlap_expert = false;
  if (plan.pipeline_parallel_size == 1) {
    plan.virtual_pipeline_size = 1;
    plan.overlap_pipeline = false;
  }
  if (plan.virtual_pipeline_size == 1 && plan.schedule == spec::Schedule::interleaved)
    plan.schedule = spec::Schedule::one_f_one_b;
  if (plan.virtual_pipeline_size == 1) plan.overlap_pipeline = false;
  if (plan.virtual_pipeline_size > 1 && plan.schedule == spec::Schedule::one_f_one_b)
    plan.schedule = spec::Schedule::interleaved;
  return plan;
}

void add_sizes(Plans& plans, const spec::Plan& plan, const char* name, int64_t spec::Plan::*size) {
  const int64_t now = plan.*size;
  for (const int64_t other : {now * 2, now / 2}) {
    if (other < 1) continue;
    spec::Plan next = plan;
    next.*size = other;
    plans.emplace_back(fmt::format("{}{} instead of {}", name, other, now), settled(next));
  }
}

void add_recompute(Plans& plans, const spec::Plan& plan) {
  spec::Plan next = plan;
  const bool is_on = plan.recompute != spec::Recompute::none;
  next.recompute = is_on ? spec::Recompute::none : spec::Recompute::full;
  next.recompute_layers.reset();
  plans.emplace_back(is_on ? "nothing recomputed" : "everything recomputed", std::move(next));
}

void add_overlap(Plans& plans, const spec::Plan& plan) {
  spec::Plan next = plan;
  next.overlap_tensor = next.overlap_gradient = next.overlap_parameter = false;
  next.overlap_pipeline = next.overlap_expert = false;
  if (next != plan) plans.emplace_back("nothing overlapped", std::move(next));
}

constexpr int64_t most_node_growth = 64;

bool can_run(const spec::Job& job) {
  return !spec::has_errors(spec::diagnose(job)) && workload::estimate_memory(job).fits();
}

/// The job on these nodes with another layout; its plan otherwise as it is.
spec::Job resized(const spec::Job& job, int64_t nodes, int64_t tensor, int64_t pipeline) {
  spec::Job next = job;
  next.cluster.num_nodes = nodes;
  next.plan.tensor_parallel_size = tensor;
  next.plan.pipeline_parallel_size = pipeline;
  next.plan = settled(next.plan);
  return next;
}

/// Layouts of growing model-parallel size; of equal size, tensor parallelism within a node first.
std::vector<std::pair<int64_t, int64_t>> larger_layouts(const spec::Job& job, int64_t devices) {
  std::vector<std::pair<int64_t, int64_t>> layouts;
  const int64_t least_tensor = job.plan.tensor_parallel_size;
  for (int64_t tensor = least_tensor; tensor <= std::max(least_tensor, job.cluster.gpus_per_node);
       tensor *= 2)
    for (int64_t pipeline = job.plan.pipeline_parallel_size; tensor * pipeline <= devices;
         pipeline *= 2)
      layouts.emplace_back(tensor, pipeline);
  std::ranges::stable_sort(layouts, {},
                           [](const auto& l) { return std::pair(l.first * l.second, l.second); });
  return layouts;
}

}  // namespace

std::optional<spec::Job> nearest_that_fits(const spec::Job& job) {
  const int64_t now = job.cluster.num_nodes;
  for (int64_t nodes = now; nodes <= most_node_growth * now; nodes *= 2)
    for (const auto& [tensor, pipeline] : larger_layouts(job, nodes * job.cluster.gpus_per_node)) {
      spec::Job next = resized(job, nodes, tensor, pipeline);
      if (can_run(next)) return next;
      if (spec::is_inference(job.task) || job.plan.recompute == spec::Recompute::full) continue;
      next.plan.recompute = spec::Recompute::full;
      next.plan.recompute_modules.clear();
      next.plan.recompute_layers.reset();
      if (can_run(next)) return next;
    }
  return std::nullopt;
}

std::string flags_between(const spec::Job& job, const spec::Job& other) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, int64_t before, int64_t after) {
    if (before != after) flags.push_back(fmt::format("{} {}", flag, after));
  };
  add("--nodes", job.cluster.num_nodes, other.cluster.num_nodes);
  add("--tp", job.plan.tensor_parallel_size, other.plan.tensor_parallel_size);
  add("--pp", job.plan.pipeline_parallel_size, other.plan.pipeline_parallel_size);
  if (job.plan.recompute != other.plan.recompute) flags.emplace_back("--recompute full");
  return fmt::format("{}", fmt::join(flags, " "));
}

OtherPlan judged_plan(std::string what, const spec::Job& job, const Objective& objective,
                      const Limits& limits) {
  OtherPlan other{.what = std::move(what), .plan = {}, .missing = {}};
  other.plan.candidate = evaluate_plan(job, objective);
  const Bytes usable = usable_memory(job, limits);
  if (usable > Bytes() && other.plan.candidate.memory > usable) {
    other.missing = other.plan.candidate.memory - usable;
    other.plan.time = other.plan.candidate.step.time;
    other.plan.terms = other.plan.candidate.step.terms;
  } else {
    other.plan = simulate_in_full(job, objective);
  }
  return other;
}

namespace {

int64_t replicas_of(const spec::Job& job) {
  return job.data_parallel_size() * job.plan.context_parallel_size;
}

}  // namespace

std::vector<OtherPlan> neighbours_of(const spec::Job& job, const Objective& objective,
                                     const Limits& limits) {
  Plans plans;
  add_sizes(plans, job.plan, "TP", &spec::Plan::tensor_parallel_size);
  add_sizes(plans, job.plan, "PP", &spec::Plan::pipeline_parallel_size);
  add_sizes(plans, job.plan, "VPP", &spec::Plan::virtual_pipeline_size);
  add_sizes(plans, job.plan, "microbatch ", &spec::Plan::micro_batch_size);
  if (job.model.moe) add_sizes(plans, job.plan, "EP", &spec::Plan::expert_parallel_size);
  add_recompute(plans, job.plan);
  add_overlap(plans, job.plan);
  std::vector<OtherPlan> others;
  for (auto& [what, plan] : plans) {
    spec::Job next = job;
    next.plan = std::move(plan);
    const bool can_shard = replicas_of(job) == 1 && replicas_of(next) > 1;
    if (can_shard) next.plan.sharding = spec::Sharding::optimizer;
    if (!spec::has_errors(spec::diagnose(next)))
      others.push_back(judged_plan(what, next, objective, limits));
  }
  return others;
}

std::string own_text(const OtherPlan& own, const Finalist& first) {
  const std::string name = plan_text(own.plan);
  if (own.missing > Bytes())
    return fmt::format("Your job, {}, does not fit: {}.", name, why_not(own, first));
  const double longer = own.plan.time / first.time - 1;
  return fmt::format("Your job, {}, takes {} s a step, {}{} against plan 1: {}.", name,
                     significant(own.plan.time), longer < 0 ? "−" : "+",
                     percent(longer < 0 ? -longer : longer), why_not(own, first));
}

std::string why_not(const OtherPlan& other, const Finalist& first) {
  if (other.missing > Bytes())
    return fmt::format("out of memory by {} GiB", significant(other.missing / unit::GiB));
  const Loss loss = largest_loss(other.plan, first);
  const double share = loss.seconds / first.time;
  if (other.plan.time <= first.time) return "not slower";
  if (share < 5e-4) return "nearly equal";
  return fmt::format("{} +{:.1f} %", reason_of(loss.term), 100 * share);
}

}  // namespace triplepoint::search
