// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/memory_choice.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

#include "triplepoint/workload/memory.h"

namespace triplepoint::calibrate {
namespace {

using spec::Plan;
using spec::Recompute;
using spec::RecomputeModule;

bool fits(const spec::Job& job) {
  return workload::estimate_memory(job).fits();
}

bool fits_with(spec::Job& job, Recompute recompute) {
  job.plan.recompute = recompute;
  return fits(job);
}

std::vector<RecomputeModule> from_cheap_to_dear(const spec::Model& model) {
  std::vector<RecomputeModule> parts = {RecomputeModule::layernorm};
  if (model.moe) parts.push_back(RecomputeModule::moe_act);
  if (model.latent_attention) parts.push_back(RecomputeModule::mla_up_proj);
  if (model.moe && model.moe->shared_expert_ffn_hidden_size > 0)
    parts.push_back(RecomputeModule::shared_experts);
  if (model.moe && model.moe->num_dense_layers > 0) parts.push_back(RecomputeModule::mlp);
  return parts;
}

bool fits_with_parts(spec::Job& job) {
  Plan& plan = job.plan;
  for (const RecomputeModule part : from_cheap_to_dear(job.model)) {
    plan.recompute_modules.push_back(part);
    if (fits_with(job, Recompute::selective)) return true;
  }
  plan.recompute_modules.clear();
  return false;
}

std::string names_of(const std::vector<RecomputeModule>& modules) {
  std::vector<std::string_view> names;
  for (const RecomputeModule module : modules)
    names.push_back(spec::enum_name(module));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool fits_with_block(spec::Job& job) {
  constexpr int64_t most_tries = 16;
  const int64_t layers_of_chunk =
      job.model.num_layers / (job.plan.pipeline_parallel_size * job.plan.virtual_pipeline_size);
  for (int64_t layers = 1; layers < layers_of_chunk;
       layers += std::max<int64_t>(1, layers_of_chunk / most_tries)) {
    job.plan.recompute_layers = layers;
    if (fits_with(job, Recompute::full)) return true;
  }
  job.plan.recompute_layers.reset();
  return false;
}

std::string least_recompute(spec::Job& job) {
  if (fits_with(job, Recompute::none)) return "no recompute";
  if (!job.stack.has_flash_attention() && fits_with(job, Recompute::selective))
    return "selective recompute";
  if (fits_with_parts(job)) return "recompute of " + names_of(job.plan.recompute_modules);
  if (fits_with_block(job))
    return fmt::format("recompute of {} layers a chunk", *job.plan.recompute_layers);
  job.plan.recompute = Recompute::full;
  return "full recompute";
}

bool may_shard(const spec::Job& job) {
  return job.plan.pipeline_parallel_size == 1 && job.data_parallel_size() > 1 &&
         job.plan.sharding != spec::Sharding::parameters;
}

}  // namespace

std::string choose_recompute(spec::Job& job) {
  job.plan.recompute_modules.clear();
  job.plan.recompute_layers.reset();
  const std::string least = least_recompute(job);
  if (fits(job) || !may_shard(job)) return least;
  job.plan.sharding = spec::Sharding::parameters;
  return "parameters sharded, since nothing else fits; " + least_recompute(job);
}

std::string choose_micro_batch(spec::Job& job) {
  constexpr int64_t most = 64;
  Plan& plan = job.plan;
  plan.micro_batch_size = 1;
  const int64_t sequences = plan.global_batch_size / job.data_parallel_size();
  for (int64_t micro = 2; micro <= most && sequences % micro == 0; micro *= 2) {
    plan.micro_batch_size = micro;
    if (fits(job)) continue;
    plan.micro_batch_size = micro / 2;
    break;
  }
  return fmt::format("microbatches of {}, as fit", plan.micro_batch_size);
}

}  // namespace triplepoint::calibrate
