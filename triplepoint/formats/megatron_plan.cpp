// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/pipeline_layout.h"
#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Model;
using spec::Plan;
using Severity = spec::Diagnosis::Severity;

spec::Precision read_precision(Settings& s) {
  const bool bf16 = s.flag("bf16"), fp16 = s.flag("fp16");
  constexpr std::array<std::string_view, 2> formats{"e4m3", "hybrid"};
  constexpr std::array<std::string_view, 4> recipes{"delayed", "tensorwise", "mxfp8", "blockwise"};
  constexpr std::array<std::string_view, 1> fp4_formats{"e2m1"}, fp4_recipes{"nvfp4"};
  const bool hybrid = s.flag("fp8-hybrid"), e4m3 = s.flag("fp8-e4m3");  // Megatron-LM's of 2023
  const bool fp8 = s.one_of("fp8-format", formats).has_value() || hybrid || e4m3;
  const auto recipe = s.one_of("fp8-recipe", recipes);
  const bool fp4 = s.one_of("fp4-format", fp4_formats).has_value();
  s.one_of("fp4-recipe", fp4_recipes);
  if (bf16 && fp16)
    s.note(DiagnosisCode::inconsistent, Severity::error, "fp16",
           "--bf16 and --fp16 (Megatron refuses both at once); leave one out");
  if (fp4) return spec::Precision::nvfp4;
  if (fp8 && recipe == "mxfp8") return spec::Precision::mxfp8;
  if (fp8 && recipe == "blockwise")
    s.assume(
        "--fp8-recipe blockwise counts as one scale a tensor (its casts and products take longer)");
  if (fp8) return spec::Precision::fp8;
  return bf16 ? spec::Precision::bf16 : fp16 ? spec::Precision::fp16 : spec::Precision::fp32;
}

/// Layers per stage where the embedding or the loss counts as its own layer.
void read_stage_layers(Settings& s, const Model& model, Plan& plan) {
  auto first = s.count("decoder-first-pipeline-num-layers", 0, largest_dimension);
  auto last = s.count("decoder-last-pipeline-num-layers", 0, largest_dimension);
  const bool embedding = s.flag("account-for-embedding-in-pipeline-split");
  const bool loss = s.flag("account-for-loss-in-pipeline-split");
  const int64_t shared = model.num_layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (embedding) first = shared / plan.pipeline_parallel_size - 1;
  if (loss) last = shared / plan.pipeline_parallel_size - 1;
  const auto layout = s.text("pipeline-model-parallel-layout");
  std::optional<std::vector<int64_t>> layers;
  if (layout)
    layers = read_pipeline_layout(*layout);
  else if (first || last)
    layers = uneven_stages(model.num_layers, plan.pipeline_parallel_size, first, last);
  else
    return;
  if (layers) plan.layers_per_stage = *layers;
  if (layers && (plan.virtual_pipeline_size == 1 || layout)) return;
  const std::string_view key = layout  ? "pipeline-model-parallel-layout"
                               : first ? "decoder-first-pipeline-num-layers"
                                       : "decoder-last-pipeline-num-layers";
  s.note(DiagnosisCode::layers_not_divisible, Severity::error, key,
         fmt::format("--{}: the layers cannot be shared out like this; make the stages' layers add "
                     "up",
                     key));
}

void read_virtual_stages(Settings& s, const Model& model, Plan& plan) {
  const auto chunks = s.count("num-virtual-stages-per-pipeline-rank", 1, most_ranks);
  const auto layers = s.count("num-layers-per-virtual-pipeline-stage", 1, largest_dimension);
  if (chunks) plan.virtual_pipeline_size = *chunks;
  // A layout has as many chunks a stage as its parts come to.
  const auto layout = read_pipeline_layout(s.text("pipeline-model-parallel-layout").value_or(""));
  if (layout && !chunks && !layers)
    plan.virtual_pipeline_size =
        std::max<int64_t>(1, std::ssize(*layout) / plan.pipeline_parallel_size);
  if (layers && !chunks) {
    const int64_t per_stage = model.num_layers / plan.pipeline_parallel_size;
    plan.virtual_pipeline_size = std::max<int64_t>(1, per_stage / *layers);
    if (per_stage % *layers != 0)
      s.note(
          DiagnosisCode::layers_not_divisible, Severity::error,
          "num-layers-per-virtual-pipeline-stage",
          fmt::format("--num-layers-per-virtual-pipeline-stage {} does not divide the {} layers of "
                      "a stage; choose a divisor",
                      *layers, per_stage));
  }
  const bool zero_bubble = s.flag("enable-zero-bubble");
  if (plan.virtual_pipeline_size > 1) plan.schedule = spec::Schedule::interleaved;
  if (zero_bubble) plan.schedule = spec::Schedule::zero_bubble;
  const bool no_overlap = s.flag("no-overlap-p2p-communication");
  plan.overlap_pipeline = plan.virtual_pipeline_size > 1 && !no_overlap;
}

void read_sizes(Settings& s, const Model& model, Plan& plan) {
  const auto size = [&](std::string_view key) { return s.count(key, 1, most_ranks).value_or(1); };
  plan.tensor_parallel_size = size("tensor-model-parallel-size");
  plan.pipeline_parallel_size = size("pipeline-model-parallel-size");
  plan.context_parallel_size = size("context-parallel-size");
  plan.expert_parallel_size = size("expert-model-parallel-size");
  plan.expert_tensor_parallel_size = s.count("expert-tensor-parallel-size", 1, most_ranks);
  plan.sequence_parallel = s.flag("sequence-parallel");
  if (s.flag("use-tp-pp-dp-mapping")) plan.rank_order = spec::RankOrder::tp_pp_dp;
  read_virtual_stages(s, model, plan);
  read_stage_layers(s, model, plan);
  plan.fp32_residual = s.flag("fp32-residual-connection");
  plan.context_exchange = read_context_exchange(s, "cp-comm-type");
}

int64_t data_parallel_size(const spec::Job& job, const Plan& plan) {
  return std::max<int64_t>(1, job.cluster.num_gpus() / plan.model_parallel_size());
}

/// Without a global batch Megatron takes one microbatch for each data-parallel rank.
Result<void> read_batches(Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  plan.micro_batch_size = TPT_TRY(s.required("micro-batch-size"));
  const auto global = s.count("global-batch-size");
  plan.global_batch_size =
      global.value_or(plan.micro_batch_size * data_parallel_size(stated.job, plan));
  if (!global)
    stated.of_launcher.push_back(
        fmt::format("batch {} (Megatron's: a microbatch a rank)", plan.global_batch_size));
  return {};
}

/// --cpu-offloading moves what whole layers keep; Megatron has it without pipelines only.
void read_offload(Settings& s, int64_t num_layers, Plan& plan) {
  const auto layers = s.count("cpu-offloading-num-layers", 0, largest_dimension);
  if (!s.flag("cpu-offloading") || !layers || num_layers == 0) return;
  plan.activation_offload = std::min(1.0, as_real(*layers) / as_real(num_layers));
}

void read_recompute(Settings& s, Plan& plan) {
  constexpr std::array<std::string_view, 2> granularities{"selective", "full"};
  constexpr std::array<std::string_view, 2> methods{"uniform", "block"};
  const auto granularity = s.one_of("recompute-granularity", granularities);
  const auto method = s.one_of("recompute-method", methods);
  const auto layers = s.count("recompute-num-layers", 0, largest_dimension);
  // Of 2022: recomputed in whole.
  const auto older_method = s.one_of("activations-checkpoint-method", methods);
  const auto older_layers = s.count("activations-checkpoint-num-layers", 0, largest_dimension);
  const bool selective = s.flag("recompute-activations");
  const bool first = s.flag("checkpoint-activations"), old = first || older_method;
  const bool experts = s.flag("moe-layer-recompute");
  plan.recompute_modules = read_recompute_modules(s, "recompute-modules");
  if (experts) plan.recompute_modules.push_back(spec::RecomputeModule::moe);
  if (granularity == "full" || old)
    plan.recompute = spec::Recompute::full;
  else if (granularity == "selective" || selective || experts)
    plan.recompute = spec::Recompute::selective;
  if (plan.recompute != spec::Recompute::selective) plan.recompute_modules.clear();
  if (plan.recompute != spec::Recompute::full) return;
  if (method == "block" && layers) plan.recompute_layers = layers;
  if (older_method == "block" && older_layers) plan.recompute_layers = older_layers;
  if (method == "uniform" && layers.value_or(1) > 1)
    s.assume(
        fmt::format("every layer keeps its input; uniform recompute in groups of {} keeps one "
                    "input a group",
                    *layers));
  if (!old && (!method || (method == "block" && !layers)))
    s.note(DiagnosisCode::inconsistent, Severity::error, "recompute-granularity",
           "full recompute names no layers (Megatron refuses it); set --recompute-method and "
           "--recompute-num-layers");
}

void read_overlap(Settings& s, Plan& plan) {
  plan.overlap_tensor = s.flag("tp-comm-overlap");
  plan.overlap_gradient = s.flag("overlap-grad-reduce");
  plan.overlap_parameter = s.flag("overlap-param-gather");
  plan.overlap_expert = s.flag("overlap-moe-expert-parallel-comm");
}

/// Megatron-FSDP names what it shards; torch FSDP2 shards parameters.
void read_sharding(Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  constexpr std::array<std::string_view, 4> strategies{"no_shard", "optim", "optim_grads",
                                                       "optim_grads_params"};
  const bool distributed = s.flag("use-distributed-optimizer"), torch = s.flag("use-torch-fsdp2");
  const bool own = s.flag("use-megatron-fsdp"), older = s.flag("use-custom-fsdp");
  const auto strategy = s.one_of("data-parallel-sharding-strategy", strategies);
  const bool keeps = s.flag("torch-fsdp2-no-reshard-after-forward");
  const int64_t copies = s.count("num-distributed-optimizer-instances", 1, most_ranks).value_or(1);
  const int64_t ranks = data_parallel_size(stated.job, plan);
  // Ranks of a context group hold the same parameters, too. Without peers nothing is sharded, until
  // flags on top of the file add some.
  const bool peers = ranks * plan.context_parallel_size > 1;
  if (distributed && !peers) stated.stated.erase(spec::JobSetting::sharding);
  if (distributed && peers) plan.sharding = spec::Sharding::optimizer;
  if (own || older) {
    if (strategy == "optim") plan.sharding = spec::Sharding::optimizer;
    if (strategy == "optim_grads") plan.sharding = spec::Sharding::gradients;
    if (strategy == "optim_grads_params") plan.sharding = spec::Sharding::parameters;
  }
  if (torch) {
    plan.sharding = spec::Sharding::parameters;
    plan.reshard_after_forward = !keeps;
  }
  if (copies > 1 && plan.sharding != spec::Sharding::none)
    plan.sharding_group_size = std::max<int64_t>(1, ranks / copies);
  if (plan.sharding != spec::Sharding::none) stated.stated.insert(spec::JobSetting::sharding);
  if (!distributed && !torch && !own && !older) stated.of_launcher.emplace_back("sharding none");
}

std::optional<double> bytes_of_type(Settings& s, std::string_view key) {
  constexpr std::array<std::string_view, 4> known{"fp32", "bf16", "fp16", "fp8"};
  const auto name = s.one_of(key, known);
  if (!name) return std::nullopt;
  return name == "fp32" ? 4 : name == "fp8" ? 1 : 2;
}

/// --use-precision-aware-optimizer: each part of the state has its own type.
void read_state_types(Settings& s, spec::OptimizerState& state) {
  const bool aware = s.flag("use-precision-aware-optimizer");
  const auto gradients = bytes_of_type(s, "main-grads-dtype");
  const auto master = bytes_of_type(s, "main-params-dtype");
  const auto first = bytes_of_type(s, "exp-avg-dtype");
  const auto second = bytes_of_type(s, "exp-avg-sq-dtype");
  if (!aware) return;
  if (gradients) state.gradient_bytes = *gradients;
  if (master) state.master_bytes = *master;
  state.moment_bytes = first.value_or(4) + second.value_or(4);
}

/// Gradients are accumulated and reduced in fp32 for bf16 weights unless asked otherwise, and in
/// the weights' type for fp16 ones.
double gradient_bytes(Settings& s, spec::Precision precision) {
  const bool full = s.flag("accumulate-allreduce-grads-in-fp32");
  const bool half = s.flag("grad-reduce-in-bf16");
  if (half) return 2;
  return precision == spec::Precision::fp16 && !full ? 2 : 4;
}

Result<void> read_optimizer(LibraryCache& cache, Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  read_sharding(s, stated);
  if (!s.has("optimizer")) stated.of_launcher.emplace_back("optimizer adam");
  const std::string name = s.text("optimizer").value_or("adam");
  const double gradients = gradient_bytes(s, plan.precision);
  const bool distributed = plan.sharding != spec::Sharding::none && name == "adam";
  const std::string known = distributed ? "mcore_distributed_optim" : name;
  const auto state = find_optimizer(cache, known, {plan.precision, true, false, gradients});
  if (!state)
    s.note(DiagnosisCode::unsupported, Severity::error, "optimizer",
           fmt::format("optimizer '{}' is not modelled (its memory is not known); try adam or sgd",
                       name.substr(0, 60)));
  else
    plan.optimizer = TPT_TRY(*state);
  plan.optimizer.gradient_bytes = gradients;
  read_state_types(s, plan.optimizer);
  if (const auto elements = s.number("ddp-bucket-size"))
    plan.gradient_bucket = *elements * plan.optimizer.gradient_sync_bytes * unit::B;
  return {};
}

/// Megatron has no words for what follows from hints alone: all else counts as stated.
void state_settings(Settings& s, spec::StatedJob& stated) {
  using enum spec::JobSetting;
  for (const auto setting : {task, micro_batch_size, global_batch_size, sharding, optimizer})
    stated.stated.insert(setting);
  if (s.is_stated("seq-length")) stated.stated.insert(sequence_length);
  stated.length_from = "the file has none";
  if (stated.job.plan.precision != spec::Precision::fp32) stated.stated.insert(precision);
  if (stated.job.plan.recompute != spec::Recompute::none || s.has("recompute-granularity"))
    stated.stated.insert(recompute);
  if (!s.has("hidden-dropout") && stated.job.model.dropout == usual_dropout)  // else the library's
    stated.of_launcher.push_back(fmt::format("dropout {}", usual_dropout));
}

}  // namespace

Result<void> read_megatron_plan(LibraryCache& cache, Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  plan.precision = read_precision(s);
  plan.fp8_attention = s.flag("fp8-dot-product-attention");
  read_sizes(s, stated.job.model, plan);
  TPT_TRY(read_batches(s, stated));
  read_recompute(s, plan);
  read_offload(s, stated.job.model.num_layers, plan);
  read_overlap(s, plan);
  state_settings(s, stated);
  return read_optimizer(cache, s, stated);
}

}  // namespace triplepoint::formats
