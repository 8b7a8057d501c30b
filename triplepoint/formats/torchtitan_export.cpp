// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/torchtitan_export.h"

#include <array>
#include <optional>

#include <fmt/format.h>

namespace triplepoint::formats {
namespace {

struct Flavor {
  std::string_view family, flavor;
  int64_t layers, hidden;
};
// torchtitan/models/llama3: what its flavors are, by layers and hidden size.
constexpr std::array flavors = {Flavor{"llama3", "8B", 32, 4096}, Flavor{"llama3", "70B", 80, 8192},
                                Flavor{"llama3", "405B", 126, 16384}};

std::optional<Flavor> flavor_of(const spec::Model& model) {
  for (const Flavor& flavor : flavors)
    if (flavor.layers == model.num_layers && flavor.hidden == model.hidden_size && !model.moe)
      return flavor;
  return std::nullopt;
}

std::string_view schedule_name(const spec::Plan& plan) {
  switch (plan.schedule) {
    case spec::Schedule::gpipe:
      return "GPipe";
    case spec::Schedule::one_f_one_b:
      return "1F1B";
    case spec::Schedule::interleaved:
      return "Interleaved1F1B";
    case spec::Schedule::zero_bubble:
      return "InterleavedZeroBubble";
  }
  return "1F1B";
}

std::vector<std::string> unsupported_by_torchtitan(const spec::Job& job, bool has_flavor) {
  const spec::Plan& plan = job.plan;
  std::vector<std::string> unsupported;
  if (!has_flavor)
    unsupported.push_back(
        fmt::format("the model {} (torchtitan trains its own flavors; the file has llama3 8B)",
                    job.model.name));
  if (plan.lora) unsupported.emplace_back("LoRA");
  if (!plan.layers_per_stage.empty()) unsupported.emplace_back("uneven stages");
  if (plan.sharding == spec::Sharding::optimizer || plan.sharding == spec::Sharding::gradients)
    unsupported.emplace_back("ZeRO-1 and ZeRO-2 (torchtitan shards parameters, or nothing)");
  if (plan.tensor_parallel_size > 1 && !plan.sequence_parallel)
    unsupported.emplace_back("tensor parallelism without sequence parallelism");
  if (plan.expert_parallel_size > 1) unsupported.emplace_back("expert parallelism");
  unsupported.emplace_back("marks of steps (add examples/marking/pytorch_loop.py's to its loop)");
  return unsupported;
}

std::string parallelism(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const int64_t data = job.data_parallel_size();
  const bool sharded = plan.sharding == spec::Sharding::parameters;
  const int64_t shard = !sharded                       ? 1
                        : plan.sharding_group_size > 0 ? plan.sharding_group_size
                                                       : data;
  return fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
      "pipeline_parallel_degree = {}\npipeline_parallel_schedule = \"{}\"\n"
      "pipeline_parallel_microbatch_size = {}\ncontext_parallel_degree = {}\n"
      "enable_async_tensor_parallel = {}\n",
      data / shard, shard, plan.reshard_after_forward ? "always" : "never",
      plan.tensor_parallel_size, plan.pipeline_parallel_size, schedule_name(plan),
      plan.micro_batch_size, plan.context_parallel_size, plan.overlap_tensor);
}

std::string_view recompute_mode(spec::Recompute recompute) {
  return recompute == spec::Recompute::full        ? "full"
         : recompute == spec::Recompute::selective ? "selective"
                                                   : "none";
}

}  // namespace

formats::Exported export_torchtitan(const spec::Job& job, int64_t steps) {
  const auto flavor = flavor_of(job.model);
  formats::Exported exported;
  exported.unsupported_settings = unsupported_by_torchtitan(job, flavor.has_value());
  for (const std::string& setting : exported.unsupported_settings)
    exported.text += fmt::format("# not said: {}\n", setting);
  exported.text += fmt::format(
      "[job]\ndescription = \"{}\"\n\n[model]\nname = \"{}\"\nflavor = \"{}\"\n\n"
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nsteps = {}\n\n"
      "[metrics]\nlog_freq = 1\n\n[activation_checkpoint]\nmode = \"{}\"\n\n",
      job.name, flavor ? flavor->family : "llama3", flavor ? flavor->flavor : "8B",
      job.plan.micro_batch_size, job.plan.global_batch_size, job.model.sequence_length, steps,
      recompute_mode(job.plan.recompute));
  exported.text += parallelism(job);
  return exported;
}

}  // namespace triplepoint::formats
