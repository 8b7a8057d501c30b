// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <initializer_list>

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/pipeline_layout.h"
#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Plan;
using spec::Task;
using Severity = spec::Diagnosis::Severity;

spec::Precision read_precision(Settings& s) {
  const bool fp8 = s.boolean("model.fp8").value_or(false);
  constexpr std::array<std::string_view, 9> known{
      "bf16", "bf16-mixed", "bf16-true", "16", "16-mixed", "16-true", "32", "32-true", "fp16"};
  const auto name = s.one_of("trainer.precision", known);
  const auto own = s.one_of("model.precision", known);
  if (name && own && *name != *own)
    s.note(DiagnosisCode::inconsistent, Severity::warning, "model.precision",
           fmt::format("model.precision is {}, trainer.precision {}; the trainer's holds", *own,
                       *name));
  if (fp8) return spec::Precision::fp8;
  const std::string word = name.value_or(own.value_or("32"));
  if (word.starts_with("bf16")) return spec::Precision::bf16;
  return word.starts_with("32") ? spec::Precision::fp32 : spec::Precision::fp16;
}

void read_sizes(Settings& s, const spec::Model& model, Plan& plan) {
  const auto size = [&](std::string_view key) { return s.count(key, 1, most_ranks).value_or(1); };
  plan.tensor_parallel_size = size("model.tensor_model_parallel_size");
  plan.pipeline_parallel_size = size("model.pipeline_model_parallel_size");
  plan.context_parallel_size = size("model.context_parallel_size");
  plan.expert_parallel_size = size("model.expert_model_parallel_size");
  plan.expert_tensor_parallel_size = s.count("model.expert_tensor_parallel_size", 1, most_ranks);
  plan.virtual_pipeline_size = size("model.virtual_pipeline_model_parallel_size");
  plan.sequence_parallel = s.boolean("model.sequence_parallel").value_or(false);
  plan.fp32_residual = s.boolean("model.fp32_residual_connection").value_or(false);
  plan.context_exchange = read_context_exchange(s, "model.cp_comm_type");
  if (plan.virtual_pipeline_size > 1) plan.schedule = spec::Schedule::interleaved;
  if (s.boolean("model.use_tp_pp_dp_mapping").value_or(false))
    plan.rank_order = spec::RankOrder::tp_pp_dp;
  const auto first = s.count("model.num_layers_in_first_pipeline_stage", 0, largest_dimension);
  const auto last = s.count("model.num_layers_in_last_pipeline_stage", 0, largest_dimension);
  if (!first && !last) return;
  const auto layers = uneven_stages(model.num_layers, plan.pipeline_parallel_size, first, last);
  if (layers) plan.layers_per_stage = *layers;
  if (!layers || plan.virtual_pipeline_size > 1)
    s.note(DiagnosisCode::layers_not_divisible, Severity::error,
           first ? "model.num_layers_in_first_pipeline_stage"
                 : "model.num_layers_in_last_pipeline_stage",
           "the layers left for the other stages cannot be shared evenly; change the number");
}

void read_batches(Settings& s, const std::string& data, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  const auto micro = s.count("model.micro_batch_size");
  const auto global = s.count("model.global_batch_size");
  const auto own_micro = data.empty() ? std::nullopt : s.count(data + "micro_batch_size");
  const auto own_global = data.empty() ? std::nullopt : s.count(data + "global_batch_size");
  plan.micro_batch_size = own_micro ? *own_micro : micro.value_or(1);
  plan.global_batch_size = own_global ? *own_global : global.value_or(0);
  if (own_micro || micro) stated.stated.insert(spec::JobSetting::micro_batch_size);
  if (own_global || global) stated.stated.insert(spec::JobSetting::global_batch_size);
  const auto accumulate = s.count("trainer.accumulate_grad_batches");
  if (accumulate.value_or(1) != 1)
    s.note(DiagnosisCode::unsupported, Severity::error, "trainer.accumulate_grad_batches",
           fmt::format("accumulate_grad_batches is {} (NeMo accumulates by itself and requires 1); "
                       "set it to 1",
                       *accumulate));
}

void read_recompute(Settings& s, Plan& plan) {
  constexpr std::array<std::string_view, 2> granularities{"selective", "full"};
  constexpr std::array<std::string_view, 2> methods{"uniform", "block"};
  const auto granularity = s.one_of("model.activations_checkpoint_granularity", granularities);
  const auto method = s.one_of("model.activations_checkpoint_method", methods);
  const auto layers = s.count("model.activations_checkpoint_num_layers", 0, largest_dimension);
  const auto modules = read_recompute_modules(s, "model.recompute_modules");
  for (const std::string_view partial :
       {"model.activations_checkpoint_layers_per_pipeline",
        "model.num_micro_batches_with_partial_activation_checkpoints"})
    if (s.has(partial))
      s.note(
          DiagnosisCode::unsupported, Severity::warning, partial,
          fmt::format("{} is not modelled: every microbatch and stage recomputes alike", partial));
  if (!granularity) return;
  plan.recompute = *granularity == "full" ? spec::Recompute::full : spec::Recompute::selective;
  if (plan.recompute == spec::Recompute::selective) {
    plan.recompute_modules = modules;
    return;
  }
  if (method == "block" && layers) plan.recompute_layers = layers;
  if (method == "uniform" && layers.value_or(1) > 1)
    s.assume(
        fmt::format("every layer keeps its input; uniform recompute in groups of {} keeps one "
                    "input a group",
                    *layers));
  if (!method || (method == "block" && !layers))
    s.note(
        DiagnosisCode::inconsistent, Severity::error, "model.activations_checkpoint_granularity",
        "full recompute names no layers (Megatron refuses it); set activations_checkpoint_method "
        "and activations_checkpoint_num_layers");
}

void read_overlap(Settings& s, Plan& plan) {
  plan.overlap_tensor = s.boolean("model.ub_tp_comm_overlap").value_or(false);
  if (s.boolean("model.tp_comm_overlap").value_or(false)) plan.overlap_tensor = true;
  plan.overlap_gradient = s.boolean("model.optim.overlap_grad_sync").value_or(false);
  plan.overlap_parameter = s.boolean("model.optim.overlap_param_sync").value_or(false);
  plan.overlap_pipeline = s.boolean("model.overlap_p2p_comm").value_or(false);
  if (const auto megabytes = s.number("model.optim.bucket_cap_mb"))
    plan.gradient_bucket = *megabytes * unit::MiB;
}

std::optional<double> bytes_of_type(Settings& s, std::string_view key) {
  constexpr std::array<std::string_view, 9> known{"bf16", "bfloat16", "16",      "fp16", "float16",
                                                  "32",   "fp32",     "float32", "half"};
  const auto name = s.one_of(key, known);
  if (!name) return std::nullopt;
  return name->find("32") != name->npos ? 4 : 2;
}

void read_fsdp(Settings& s, const spec::Job& job, Plan& plan) {
  constexpr std::array<std::string_view, 3> strategies{"full", "grad", "hybrid"};
  const auto strategy = s.one_of("model.fsdp_sharding_strategy", strategies);
  plan.sharding = spec::Sharding::parameters;
  plan.reshard_after_forward = strategy != "grad";
  if (strategy == "hybrid")
    plan.sharding_group_size =
        std::max<int64_t>(1, job.cluster.gpus_per_node / plan.tensor_parallel_size);
  // Parameters that TP ranks hold alike stay out of FSDP, in fp32 without O2; added to a bf16
  // trunk, biases and positions promote it (docs/models/memory.md).
  const bool o2 = s.boolean("model.megatron_amp_O2").value_or(false);
  const bool adds_parameters =
      job.model.biases || job.model.position_embedding == spec::PositionEmbedding::learned;
  if (!o2 && plan.tensor_parallel_size > 1 && adds_parameters) plan.fp32_residual = true;
}

Result<void> read_optimizer_bytes(LibraryCache& cache, Settings& s, bool fsdp,
                                  const std::string& name, Plan& plan) {
  const bool o2 = s.boolean("model.megatron_amp_O2").value_or(false);
  const auto sync = bytes_of_type(s, "model.optim.grad_sync_dtype");
  const auto reduce = bytes_of_type(s, "model.fsdp_grad_reduce_dtype");
  const auto state = find_optimizer(cache, name, {plan.precision, o2, fsdp, fsdp ? reduce : sync});
  if (state) {
    plan.optimizer = TPT_TRY(*state);
    return {};
  }
  s.note(DiagnosisCode::unsupported, Severity::error, "model.optim.name",
         fmt::format("optimizer '{}' is not modelled (its memory is not known); try fused_adam, "
                     "distributed_fused_adam or mcore_distributed_optim",
                     name.substr(0, 60)));
  return {};
}

/// Optimizer, its bytes, and who shards what.
Result<void> read_optimizer(LibraryCache& cache, Settings& s, spec::StatedJob& stated) {
  const spec::Job& job = stated.job;
  Plan& plan = stated.job.plan;
  const std::string name = s.text("model.optim.name").value_or("fused_adam");
  if (!s.has("model.optim.name")) stated.of_launcher.push_back("optimizer " + name);
  const bool fsdp = s.boolean("model.fsdp").value_or(false);
  if (s.has("model.fsdp_sharding_strategy") && !fsdp)
    s.assume("model.fsdp_sharding_strategy has no effect without model.fsdp");
  TPT_TRY(read_optimizer_bytes(cache, s, fsdp, name, plan));
  const bool distributed = name == "distributed_fused_adam" || name == "mcore_distributed_optim";
  // Ranks of a context group hold the same parameters, too. Without peers it shards nothing, until
  // flags on top of the file add some.
  const bool alone =
      plan.context_parallel_size == 1 && job.cluster.num_gpus() / plan.model_parallel_size() <= 1;
  if (fsdp)
    read_fsdp(s, job, plan);
  else if (distributed && !alone)
    plan.sharding = spec::Sharding::optimizer;
  else if (distributed)
    stated.stated.erase(spec::JobSetting::sharding);
  return {};
}

std::vector<std::string> lora_targets(Settings& s, std::string_view key) {
  std::vector<std::string> targets;
  for (const std::string& name : s.list(key).value_or(std::vector<std::string>{"attention_qkv"})) {
    const bool all = name == "all";
    const std::size_t before = targets.size();
    if (all || name == "attention" || name == "attention_qkv") targets.push_back("attention_qkv");
    if (all || name == "attention" || name == "attention_dense")
      targets.push_back("attention_dense");
    if (all || name == "mlp" || name == "mlp_fc1") targets.push_back("mlp_fc1");
    if (all || name == "mlp" || name == "mlp_fc2") targets.push_back("mlp_fc2");
    if (targets.size() == before)
      s.note(DiagnosisCode::unsupported, Severity::error, key,
             fmt::format("LoRA target '{}' (target_modules) is not modelled; try attention_qkv, "
                         "attention_dense, mlp_fc1 or mlp_fc2",
                         name.substr(0, 60)));
  }
  return targets;
}

void read_lora(Settings& s, Task task, Plan& plan) {
  const std::string section = "model.peft.lora_tuning.";
  const auto rank = s.count(section + "adapter_dim", 1, largest_dimension);
  const auto targets = lora_targets(s, section + "target_modules");
  const double dropout = s.fraction(section + "adapter_dropout").value_or(0);
  const bool all_to_all = s.boolean(section + "a2a_experimental").value_or(false);
  const bool tied = s.boolean(section + "weight_tying").value_or(false);
  const bool selected = s.has(section + "layer_selection");
  if (task != Task::lora) return;
  plan.lora = spec::Lora{rank.value_or(32), targets, dropout, all_to_all};
  if (tied || selected)
    s.note(DiagnosisCode::unsupported, Severity::warning,
           section + (tied ? "weight_tying" : "layer_selection"),
           "adapters of chosen layers are not modelled: every layer has its own adapter");
}

/// NeMo pads the records of fine-tuning to the longest unless it is told otherwise.
void read_record_layout(Settings& s, const std::string& data, spec::Job& job) {
  if (data.empty()) return;
  const bool packed = s.boolean(data + "packed_sequence").value_or(false);
  const bool padded = s.boolean(data + "pad_to_max_length").value_or(false);
  if (job.task != Task::lora) return;
  job.plan.record_layout = packed   ? spec::RecordLayout::packed
                           : padded ? spec::RecordLayout::padded
                                    : spec::RecordLayout::longest;
}

void read_attention_kernels(Settings& s) {
  if (!s.boolean("model.use_flash_attention").value_or(true) &&
      !s.boolean("model.transformer_engine").value_or(false))
    s.note(DiagnosisCode::unsupported, Severity::warning, "model.use_flash_attention",
           "attention without flash attention is not modelled: its score matrices are left out");
}

/// What NeMo itself decides where the file does not counts as stated, and is noted.
void state_settings(Settings& s, const std::string& data, spec::StatedJob& stated) {
  using enum spec::JobSetting;
  for (const auto setting : {task, sharding, optimizer})
    stated.stated.insert(setting);
  const auto state = [&](spec::JobSetting setting, std::initializer_list<std::string> keys) {
    if (std::ranges::any_of(keys, [&](const auto& key) { return s.has(key); }))
      stated.stated.insert(setting);
  };
  state(sequence_length, {"model.data.seq_length", "model.encoder_seq_length"});
  if (!data.empty()) state(sequence_length, {data + "max_seq_length"});
  state(precision, {"trainer.precision", "model.precision", "model.fp8"});
  state(recompute, {"model.activations_checkpoint_granularity"});
  stated.length_from = "the file has none";
  if (!s.has("model.hidden_dropout"))
    stated.of_launcher.push_back(fmt::format("dropout {}", usual_dropout));
}

}  // namespace

Result<void> read_nemo_plan(LibraryCache& cache, Settings& s, const std::string& data,
                            spec::StatedJob& stated) {
  spec::Job& job = stated.job;
  job.plan.precision = read_precision(s);
  job.plan.fp8_attention = s.boolean("model.fp8_dot_product_attention").value_or(false);
  read_sizes(s, job.model, job.plan);
  read_batches(s, data, stated);
  read_recompute(s, job.plan);
  read_overlap(s, job.plan);
  state_settings(s, data, stated);
  TPT_TRY(read_optimizer(cache, s, stated));
  read_lora(s, job.task, job.plan);
  read_record_layout(s, data, job);
  read_attention_kernels(s);
  return {};
}

}  // namespace triplepoint::formats
