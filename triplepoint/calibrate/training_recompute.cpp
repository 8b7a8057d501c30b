// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_recompute.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

#include "triplepoint/workload/memory.h"

namespace triplepoint::calibrate {
namespace {

using spec::Plan;
using spec::Recompute;
using spec::RecomputeModule;
using spec::Sharding;

int64_t layers_of_chunk(const spec::Job& job) {
  return job.model.num_layers / (job.plan.pipeline_parallel_size * job.plan.virtual_pipeline_size);
}

/// Layers whose forward pass is played twice, if executed over model FLOPs are printed: all of
/// them make a third more.
std::optional<int64_t> printed_recompute(const spec::Job& job, const TrainingRow& row) {
  if (!row.mfu_pct || !row.hfu_pct || *row.mfu_pct <= 0) return std::nullopt;
  const double share = std::clamp(3 * (*row.hfu_pct / *row.mfu_pct - 1), 0.0, 1.0);
  return std::llround(share * static_cast<double>(job.model.num_layers));
}

/// As few layers of each chunk as make the rest fit.
bool fits_with_block(spec::Job& job) {
  const int64_t most = layers_of_chunk(job);
  for (int64_t layers = 1; layers < most; layers += std::max<int64_t>(1, most / 16)) {
    job.plan.recompute_layers = layers;
    if (fits_with(job, Recompute::full)) return true;
  }
  job.plan.recompute_layers.reset();
  return false;
}

/// May the row have sharded its parameters without saying so?
bool shards_unsaid(const spec::Job& job, const TrainingRow& row) {
  const bool unsaid = row.sharding.empty() || row.sharding == "FSDP=0";
  return unsaid && job.plan.pipeline_parallel_size == 1 &&
         job.plan.sharding != Sharding::parameters && job.data_parallel_size() > 1;
}

/// What the row says of recompute; false where it says nothing.
bool take_said_recompute(spec::Job& job, const TrainingRow& row, const FrameworkRule& rule) {
  Plan& plan = job.plan;
  const std::string& said = row.recompute;
  const bool selective = mentions(said, "selective") || mentions(said, "core_attn");
  const auto printed = printed_recompute(job, row);
  // Selective recompute of attention makes a few per cent more work: no layer is played again.
  const bool attention_only = selective && !job.stack.flash_attention;
  if (printed && *printed > 0 && said != "none" && !attention_only) {
    plan.recompute = Recompute::full;
    if (*printed < job.model.num_layers) plan.recompute_layers = *printed;
  } else if (mentions(said, "full")) {
    plan.recompute = Recompute::full;
  } else if (rule.selects_operations && (selective || said.empty())) {
    // Every other product is kept, with attention. It is the default, too, where that fits.
    plan.recompute_modules = {RecomputeModule::alternate_gemms};
    if (fits_with(job, Recompute::selective) || !said.empty()) return true;
    plan.recompute_modules.clear();
    plan.recompute = Recompute::full;
  } else if (selective) {
    plan.recompute = Recompute::selective;
  } else {
    return mentions(said, "none") || said == "no" || said == "off";
  }
  return true;
}

std::string words_of(const std::vector<RecomputeModule>& modules) {
  std::string words;
  for (const RecomputeModule module : modules)
    words += fmt::format("{}{}", words.empty() ? "" : ", ", spec::enum_name(module));
  return "recompute of " + words;
}

/// As few parts of every layer as make the rest fit.
bool fits_with_parts(spec::Job& job) {
  Plan& plan = job.plan;
  for (const RecomputeModule part : cheap_parts(job.model)) {
    plan.recompute_modules.push_back(part);
    if (fits_with(job, Recompute::selective)) return true;
  }
  plan.recompute_modules.clear();
  return false;
}

/// As the recipe does, if that fits.
std::optional<std::string> take_recipes_recompute(spec::Job& job,
                                                  const std::vector<RecomputeModule>& modules) {
  job.plan.recompute_modules = modules;
  if (fits_with(job, modules.empty() ? Recompute::none : Recompute::selective))
    return modules.empty() ? "no recompute, as its recipe" : words_of(modules) + ", as its recipe";
  job.plan.recompute_modules.clear();
  return std::nullopt;
}

/// The least that fits; the last resort, all layers, whether it fits or not.
std::string take_least_recompute(spec::Job& job, const FrameworkRule& rule) {
  if (fits_with(job, Recompute::none)) return "no recompute";
  if (!job.stack.flash_attention && fits_with(job, Recompute::selective))
    return "selective recompute";
  if (rule.recomputes_modules && fits_with_parts(job)) return words_of(job.plan.recompute_modules);
  if (fits_with_block(job))
    return fmt::format("recompute of {} layers a chunk", *job.plan.recompute_layers);
  job.plan.recompute = Recompute::full;
  return "full recompute";
}

}  // namespace

bool fits_with(spec::Job& job, Recompute recompute) {
  job.plan.recompute = recompute;
  return workload::estimate_memory(job).fits();
}

std::vector<RecomputeModule> cheap_parts(const spec::Model& model) {
  std::vector<RecomputeModule> parts = {RecomputeModule::layernorm};
  if (model.moe) parts.push_back(RecomputeModule::moe_act);
  if (model.latent_attention) parts.push_back(RecomputeModule::mla_up_proj);
  if (model.moe && model.moe->shared_expert_ffn_hidden_size > 0)
    parts.push_back(RecomputeModule::shared_experts);
  if (model.moe && model.moe->num_dense_layers > 0) parts.push_back(RecomputeModule::mlp);
  return parts;
}

std::vector<std::string> take_recompute(spec::Job& job, const TrainingRow& row,
                                        const FrameworkRule& rule,
                                        const std::vector<RecomputeModule>* recipe) {
  if (take_said_recompute(job, row, rule)) return {};
  if (recipe != nullptr)
    if (auto taken = take_recipes_recompute(job, *recipe)) return {*std::move(taken)};
  const std::string least = take_least_recompute(job, rule);
  if (least != "full recompute" || fits_with(job, Recompute::full) || !shards_unsaid(job, row))
    return {least};
  job.plan.sharding = Sharding::parameters;
  return {"FSDP, since nothing else fits", take_least_recompute(job, rule)};
}

}  // namespace triplepoint::calibrate
