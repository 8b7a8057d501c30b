// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/pipeline_layout.h"
#include "triplepoint/formats/yaml_writer.h"

namespace triplepoint::formats {
namespace {

using spec::Job;
using spec::Model;
using spec::Plan;
using spec::RecordLayout;
using spec::Task;

void write_run(YamlWriter& yaml, const Job& job) {
  yaml.text("run.name", job.name);
  yaml.text("run.cluster", job.cluster.name);
  yaml.text("run.stack", job.stack.name);
  yaml.text("run.optimizer", job.plan.optimizer.name);
}

void write_trainer(YamlWriter& yaml, const Job& job, int64_t steps) {
  yaml.count("trainer.devices", job.cluster.gpus_per_node);
  yaml.count("trainer.num_nodes", job.cluster.num_nodes);
  yaml.text("trainer.accelerator", "gpu");
  const spec::Precision precision = job.plan.precision;
  if (precision == spec::Precision::fp32 || precision == spec::Precision::fp16)
    yaml.count("trainer.precision", precision == spec::Precision::fp32 ? 32 : 16);
  else
    yaml.text("trainer.precision", "bf16");
  yaml.boolean("trainer.logger", false);
  yaml.boolean("trainer.enable_checkpointing", false);
  yaml.boolean("trainer.use_distributed_sampler", false);
  yaml.null("trainer.max_epochs");
  yaml.count("trainer.max_steps", steps);
  yaml.count("trainer.log_every_n_steps", 1);
  yaml.count("trainer.val_check_interval", steps);
  yaml.count("trainer.limit_val_batches", 0);
  yaml.count("trainer.limit_test_batches", 0);
  yaml.count("trainer.accumulate_grad_batches", 1);
  yaml.number("trainer.gradient_clip_val", 1);
}

void write_exp_manager(YamlWriter& yaml, const Job& job) {
  yaml.text("exp_manager.name", "megatron_" + job.model.name);
  yaml.null("exp_manager.explicit_log_dir");
  yaml.null("exp_manager.exp_dir");
  yaml.boolean("exp_manager.create_wandb_logger", false);
  yaml.boolean("exp_manager.create_checkpoint_callback", false);
  yaml.boolean("exp_manager.resume_if_exists", false);
  yaml.boolean("exp_manager.log_step_timing", true);
}

bool can_state_layers(const Plan& plan) {
  return has_even_inner_stages(plan.layers_per_stage) && plan.virtual_pipeline_size == 1;
}

/// Layers that NeMo cannot be told are dealt evenly, where that is possible.
std::string why_refused(const Job& job) {
  const Plan& plan = job.plan;
  const int64_t parts = plan.pipeline_parallel_size * plan.virtual_pipeline_size;
  if (plan.layers_per_stage.empty() || can_state_layers(plan) || job.model.num_layers % parts == 0)
    return "";
  return fmt::format("NeMo 1.x deals layers evenly over {}, and {} layers on {} are not even",
                     plan.virtual_pipeline_size > 1 ? "stages x chunks" : "the inner stages",
                     job.model.num_layers, parts);
}

void write_layers_per_stage(YamlWriter& yaml, const Plan& plan,
                            std::vector<std::string>& unsupported) {
  const auto& layers = plan.layers_per_stage;
  if (layers.empty()) return;
  if (!can_state_layers(plan)) {
    unsupported.push_back(
        "the layers of each stage (NeMo sets only those of the first and the last)");
    return;
  }
  yaml.count("model.num_layers_in_first_pipeline_stage", layers.front());
  if (layers.size() > 1) yaml.count("model.num_layers_in_last_pipeline_stage", layers.back());
}

void write_sizes(YamlWriter& yaml, const Plan& plan, std::vector<std::string>& unsupported) {
  yaml.count("model.tensor_model_parallel_size", plan.tensor_parallel_size);
  yaml.count("model.pipeline_model_parallel_size", plan.pipeline_parallel_size);
  if (plan.virtual_pipeline_size > 1)
    yaml.count("model.virtual_pipeline_model_parallel_size", plan.virtual_pipeline_size);
  else
    yaml.null("model.virtual_pipeline_model_parallel_size");
  yaml.count("model.context_parallel_size", plan.context_parallel_size);
  yaml.count("model.expert_model_parallel_size", plan.expert_parallel_size);
  if (plan.expert_tensor_parallel_size)
    yaml.count("model.expert_tensor_parallel_size", *plan.expert_tensor_parallel_size);
  yaml.boolean("model.sequence_parallel", plan.sequence_parallel);
  if (plan.context_exchange == spec::ContextExchange::all_gather)
    yaml.text("model.cp_comm_type", "all_gather");
  // With FSDP it follows from unsharded fp32 biases and needs no key.
  if (plan.sharding != spec::Sharding::parameters)
    yaml.boolean("model.fp32_residual_connection", plan.fp32_residual);
  if (plan.rank_order == spec::RankOrder::tp_pp_dp)
    yaml.boolean("model.use_tp_pp_dp_mapping", true);
  write_layers_per_stage(yaml, plan, unsupported);
  if (plan.schedule == spec::Schedule::zero_bubble)
    unsupported.push_back("the zero-bubble schedule (NeMo has none)");
}

void write_dimensions(YamlWriter& yaml, const Model& model) {
  yaml.count("model.encoder_seq_length", model.sequence_length);
  yaml.count("model.max_position_embeddings", model.sequence_length);
  yaml.count("model.num_layers", model.num_layers);
  yaml.count("model.hidden_size", model.hidden_size);
  yaml.count("model.ffn_hidden_size", model.ffn_hidden_size);
  yaml.count("model.num_attention_heads", model.num_attention_heads);
  yaml.count("model.num_query_groups", model.num_query_groups);
  yaml.count("model.kv_channels", model.kv_channels);
  yaml.count("model.make_vocab_size_divisible_by", model.vocabulary_divisible_by);
  yaml.count("model.override_vocab_size", model.vocabulary_size);
}

std::string_view activation_name(spec::Activation activation) {
  if (activation == spec::Activation::swiglu) return "fast-swiglu";
  return activation == spec::Activation::gelu ? "gelu" : "squared-relu";
}

std::string_view position_name(spec::PositionEmbedding positions) {
  if (positions == spec::PositionEmbedding::learned) return "learned_absolute";
  return positions == spec::PositionEmbedding::rope ? "rope" : "none";
}

void write_details(YamlWriter& yaml, const Model& model) {
  const bool rms = model.normalization == spec::Normalization::rms_norm;
  yaml.text("model.activation", activation_name(model.activation));
  yaml.text("model.normalization", rms ? "rmsnorm" : "layernorm");
  yaml.text("model.position_embedding_type", position_name(model.position_embedding));
  yaml.boolean("model.share_embeddings_and_output_weights", model.tied_embeddings);
  yaml.boolean("model.bias", model.biases);
  yaml.number("model.hidden_dropout", model.dropout);
  yaml.number("model.attention_dropout", model.dropout);
  yaml.number("model.layernorm_epsilon", 1e-5);
  yaml.number("model.init_method_std", 0.02);
  yaml.boolean("model.apply_query_key_layer_scaling", false);
  yaml.boolean("model.pre_process", true);
  yaml.boolean("model.post_process", true);
  yaml.boolean("model.persist_layer_norm", true);
  yaml.text("model.tokenizer.library", "megatron");
  yaml.text("model.tokenizer.type", "GPT2BPETokenizer");
  for (const char* key : {"model", "vocab_file", "merge_file", "delimiter"})
    yaml.null(fmt::format("model.tokenizer.{}", key));
}

void write_experts(YamlWriter& yaml, const Model& model, std::vector<std::string>& unsupported) {
  if (model.latent_attention)
    unsupported.push_back(
        "multi-head latent attention (NeMo 1.x has none: attention is written as plain)");
  if (!model.moe) return;
  const spec::MixtureOfExperts& moe = *model.moe;
  yaml.count("model.num_moe_experts", moe.num_experts);
  yaml.count("model.moe_router_topk", moe.router_topk);
  yaml.count("model.moe_ffn_hidden_size", moe.ffn_hidden_size);
  if (moe.capacity_factor) yaml.number("model.moe_expert_capacity_factor", *moe.capacity_factor);
  yaml.boolean("model.moe_pad_expert_input_to_capacity", moe.pad_to_capacity);
  yaml.boolean("model.moe_grouped_gemm", moe.grouped_gemm);
  yaml.text("model.moe_token_dispatcher_type", "alltoall");
  yaml.number("model.moe_aux_loss_coeff", 0.01);
  if (moe.shared_expert_ffn_hidden_size > 0)
    yaml.count("model.moe_shared_expert_intermediate_size", moe.shared_expert_ffn_hidden_size);
  if (moe.num_dense_layers > 0) yaml.text("model.moe_layer_freq", moe_pattern(model));
}

void write_recompute(YamlWriter& yaml, const Plan& plan) {
  const std::string prefix = "model.activations_checkpoint_";
  if (plan.recompute == spec::Recompute::none)
    yaml.null(prefix + "granularity");
  else
    yaml.text(prefix + "granularity",
              plan.recompute == spec::Recompute::full ? "full" : "selective");
  if (!plan.recompute_modules.empty())
    yaml.list("model.recompute_modules", recompute_module_names(plan));
  if (plan.recompute != spec::Recompute::full) return;
  yaml.text(prefix + "method", plan.recompute_layers ? "block" : "uniform");
  yaml.count(prefix + "num_layers", plan.recompute_layers.value_or(1));
}

void write_fsdp(YamlWriter& yaml, const Job& job, std::vector<std::string>& unsupported) {
  const Plan& plan = job.plan;
  yaml.boolean("model.fsdp", true);
  const int64_t in_node = job.cluster.gpus_per_node / plan.tensor_parallel_size;
  if (plan.cuda_device_max_connections == 1)
    unsupported.push_back(
        "cuda_device_max_connections 1 (export CUDA_DEVICE_MAX_CONNECTIONS=1 in the job's script)");
  const bool hybrid = plan.sharding_group_size > 0;
  yaml.text("model.fsdp_sharding_strategy", hybrid                       ? "hybrid"
                                            : plan.reshard_after_forward ? "full"
                                                                         : "grad");
  if (hybrid && plan.sharding_group_size != in_node)
    unsupported.push_back(
        fmt::format("sharding groups of {} (NeMo's hybrid sharding is inside a node)",
                    plan.sharding_group_size));
  if (hybrid && !plan.reshard_after_forward)
    unsupported.push_back(
        "keeping gathered parameters for the backward pass (not with hybrid sharding)");
  yaml.text("model.fsdp_grad_reduce_dtype",
            plan.optimizer.gradient_sync_bytes < 4 ? "bf16" : "fp32");
  yaml.boolean("model.fsdp_use_orig_params", true);
  yaml.boolean("model.fsdp_sharded_checkpoint", false);
}

/// Under FSDP, NeMo's fused_adam keeps other bytes than without (formats/assemble.cpp).
struct NemoOptimizer {
  std::string_view ours, theirs;
  std::optional<bool> of_fsdp = {};  // absent: either
};
constexpr NemoOptimizer optimizers[] = {{"fused_adam", "fused_adam", false},
                                        {"fsdp_fused_adam", "fused_adam", true},
                                        {"fsdp_adamw", "fused_adam", true},
                                        {"sgd", "sgd"},
                                        {"distributed_fused_adam", "distributed_fused_adam"},
                                        {"distributed_fused_adam_bf16", "distributed_fused_adam"},
                                        {"mcore_distributed_optim", "mcore_distributed_optim"},
                                        {"megatron_distributed_optim", "mcore_distributed_optim"}};

std::string optimizer_name(const Plan& plan, std::vector<std::string>& unsupported) {
  const bool fsdp = plan.sharding == spec::Sharding::parameters;
  for (const NemoOptimizer& each : optimizers)
    if (each.ours == plan.optimizer.name && each.of_fsdp.value_or(fsdp) == fsdp)
      return std::string(each.theirs);
  const bool sharded =
      plan.sharding == spec::Sharding::optimizer || plan.sharding == spec::Sharding::gradients;
  std::string stand_in = sharded ? "distributed_fused_adam" : "fused_adam";
  unsupported.push_back(
      fmt::format("optimizer {} (not in NeMo: {} is used instead)", plan.optimizer.name, stand_in));
  return stand_in;
}

void check_sharding(const Job& job, std::string_view name, std::vector<std::string>& unsupported) {
  const bool shards = name == "distributed_fused_adam" || name == "mcore_distributed_optim";
  const spec::Sharding sharding = job.plan.sharding;
  if (sharding == spec::Sharding::gradients)
    unsupported.push_back(
        "sharded gradients (NeMo shards the optimizer's state, or parameters as well)");
  if (sharding == spec::Sharding::optimizer && !shards)
    unsupported.push_back(fmt::format("the sharded state (optimizer {} keeps it whole)", name));
  const int64_t replicas = job.data_parallel_size() * job.plan.context_parallel_size;
  if (sharding == spec::Sharding::none && shards && replicas > 1)
    unsupported.push_back(fmt::format("the unsharded state (optimizer {} always shards it)", name));
}

void write_optimizer(YamlWriter& yaml, const Job& job, std::vector<std::string>& unsupported) {
  const Plan& plan = job.plan;
  const std::string name = optimizer_name(plan, unsupported);
  const bool fsdp = plan.sharding == spec::Sharding::parameters;
  const bool adds_parameters =
      job.model.biases || job.model.position_embedding == spec::PositionEmbedding::learned;
  if (fsdp && !plan.fp32_residual && plan.tensor_parallel_size > 1 && adds_parameters)
    unsupported.push_back(
        "a 16-bit residual stream (NeMo's FSDP keeps biases and positions in fp32)");
  if (fsdp)
    write_fsdp(yaml, job, unsupported);
  else
    check_sharding(job, name, unsupported);
  const bool remainders = plan.optimizer.master_bytes < 4 && plan.optimizer.weight_bytes < 4;
  if (plan.precision == spec::Precision::fp16 && remainders && name == "distributed_fused_adam")
    unsupported.push_back(
        "16-bit remainders of the master weights (with fp16 NeMo keeps whole fp32 copies)");
  yaml.boolean("model.megatron_amp_O2", !fsdp && plan.optimizer.weight_bytes < 4);
  yaml.text("model.optim.name", name);
  yaml.number("model.optim.lr", 1e-4);
  yaml.number("model.optim.weight_decay", 0.1);
  yaml.boolean("model.optim.overlap_grad_sync", plan.overlap_gradient);
  yaml.boolean("model.optim.overlap_param_sync", plan.overlap_parameter);
  if (!fsdp && plan.optimizer.gradient_sync_bytes < 4)
    yaml.text("model.optim.grad_sync_dtype", "bf16");
  if (plan.gradient_bucket)
    yaml.number("model.optim.bucket_cap_mb", *plan.gradient_bucket / unit::MiB);
  yaml.text("model.optim.sched.name", "CosineAnnealing");
  yaml.count("model.optim.sched.warmup_steps", 0);
  yaml.count("model.optim.sched.constant_steps", 0);
  yaml.number("model.optim.sched.min_lr", 1e-5);
}

/// NeMo counts steps from 0. Traces are in <trace_dir>/<job id>_kineto.
void write_profile(YamlWriter& yaml, bool is_profiled, int64_t steps) {
  constexpr int64_t step_of_artifact = 10;
  const int64_t step = std::min(step_of_artifact, steps - 1);
  yaml.boolean("model.chakra_profile.enabled", is_profiled);
  if (!is_profiled) return;
  yaml.text("model.chakra_profile.trace_dir", "traces");
  yaml.count("model.chakra_profile.start_step", step);
  yaml.count("model.chakra_profile.end_step", step);
  yaml.count("model.chakra_profile.warmup_steps", 0);
  yaml.count("model.chakra_profile.active_steps", 1);
}

void write_execution(YamlWriter& yaml, const Job& job, int64_t steps,
                     std::vector<std::string>& unsupported) {
  const Plan& plan = job.plan;
  yaml.boolean("model.mcore_gpt", true);
  yaml.boolean("model.transformer_engine", true);
  yaml.boolean("model.use_flash_attention", true);
  yaml.boolean("model.fp8", plan.precision == spec::Precision::fp8);
  if (plan.fp8_attention) yaml.boolean("model.fp8_dot_product_attention", true);
  yaml.boolean("model.ub_tp_comm_overlap", plan.overlap_tensor);
  yaml.boolean("model.overlap_p2p_comm", plan.overlap_pipeline);
  if (plan.overlap_expert)
    unsupported.push_back("the overlapped exchange between experts (NeMo 1.x has none)");
  yaml.boolean("model.gradient_accumulation_fusion", plan.sharding != spec::Sharding::parameters);
  yaml.count("model.seed", 1234);
  yaml.null("model.resume_from_checkpoint");
  yaml.null("model.rampup_batch_size");
  write_profile(yaml, job.stack.profiled, steps);
  yaml.boolean("model.nsys_profile.enabled", false);
}

void write_pretraining_data(YamlWriter& yaml, const Model& model) {
  yaml.text("model.data.data_impl", "mock");
  yaml.list("model.data.data_prefix", {});
  yaml.count("model.data.seq_length", model.sequence_length);
  yaml.text("model.data.splits_string", "99990,8,2");
  yaml.text("model.data.dataloader_type", "single");
  yaml.count("model.data.num_workers", 2);
  yaml.null("model.data.index_mapping_dir");
}

/// Rows as long as the job says; what is in them is in data files.
void write_samples(YamlWriter& yaml, const Job& job, const std::string& set) {
  const std::string prefix = "model.data." + set + ".";
  yaml.list(prefix + "file_names", {});
  yaml.count(prefix + "global_batch_size", job.plan.global_batch_size);
  yaml.count(prefix + "micro_batch_size", job.plan.micro_batch_size);
  yaml.count(prefix + "max_seq_length", job.model.sequence_length);
  yaml.count(prefix + "min_seq_length", 1);
  const RecordLayout layout = job.plan.record_layout;
  yaml.boolean(prefix + "pad_to_max_length", layout != RecordLayout::longest);
  if (layout == RecordLayout::packed) yaml.boolean(prefix + "packed_sequence", true);
  yaml.boolean(prefix + "shuffle", false);
  yaml.count(prefix + "num_workers", 0);
  yaml.text(prefix + "prompt_template", "{input} {output}");
  yaml.text(prefix + "label_key", "output");
}

void write_lora(YamlWriter& yaml, const Plan& plan) {
  const spec::Lora lora = plan.lora.value_or(spec::Lora());
  yaml.text("model.peft.peft_scheme", "lora");
  yaml.null("model.peft.restore_from_path");
  yaml.count("model.peft.lora_tuning.adapter_dim", lora.rank);
  yaml.list("model.peft.lora_tuning.target_modules", lora.targets);
  yaml.number("model.peft.lora_tuning.adapter_dropout", lora.dropout);
  if (lora.all_to_all) yaml.boolean("model.peft.lora_tuning.a2a_experimental", true);
  yaml.null("model.restore_from_path");
}

void write_task(YamlWriter& yaml, const Job& job, std::vector<std::string>& unsupported) {
  yaml.count("model.micro_batch_size", job.plan.micro_batch_size);
  yaml.count("model.global_batch_size", job.plan.global_batch_size);
  if (job.task == Task::pretrain) return write_pretraining_data(yaml, job.model);
  if (job.task == Task::lora) {
    write_samples(yaml, job, "train_ds");
    if (job.plan.record_layout == RecordLayout::packed && job.plan.micro_batch_size > 1)
      unsupported.push_back(
          fmt::format("packed rows in microbatches of {} (NeMo packs with micro_batch_size 1)",
                      job.plan.micro_batch_size));
    return write_lora(yaml, job.plan);
  }
  if (job.task == Task::decode)
    unsupported.push_back("that only tokens after the prompt are generated (NeMo generates both)");
  yaml.boolean("inference.greedy", true);
  yaml.text("model.peft.peft_scheme", "none");
  yaml.null("model.restore_from_path");
  write_samples(yaml, job, "test_ds");
  yaml.count("model.data.test_ds.tokens_to_generate", 1);
}

}  // namespace

std::string_view nemo_entry_script(Task task) {
  if (task == Task::pretrain) return "megatron_gpt_pretraining.py";
  return task == Task::lora ? "tuning/megatron_gpt_finetuning.py"
                            : "tuning/megatron_gpt_generate.py";
}

Exported export_nemo_yaml(const Job& job, int64_t steps) {
  Exported result;
  result.unsupported_settings = unsupported_by_launch_files(job);
  result.refused_by_launcher = why_refused(job);
  YamlWriter yaml;
  write_run(yaml, job);
  write_trainer(yaml, job, steps);
  write_exp_manager(yaml, job);
  write_sizes(yaml, job.plan, result.unsupported_settings);
  write_dimensions(yaml, job.model);
  write_details(yaml, job.model);
  write_experts(yaml, job.model, result.unsupported_settings);
  write_recompute(yaml, job.plan);
  write_execution(yaml, job, steps, result.unsupported_settings);
  write_optimizer(yaml, job, result.unsupported_settings);
  write_task(yaml, job, result.unsupported_settings);
  result.text = fmt::format(
      "# Start on {} nodes with {} processes each, in NeMo 1.x:\n"
      "#   python examples/nlp/language_modeling/{} --config-path=<folder> --config-name=<this "
      "file>\n"
      "{}{}",
      job.cluster.num_nodes, job.cluster.gpus_per_node, nemo_entry_script(job.task),
      comments_of(result.unsupported_settings), yaml.str());
  return result;
}

}  // namespace triplepoint::formats
