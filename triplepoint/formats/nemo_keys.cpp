// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

struct KnownKey {
  std::string_view pattern;  // a whole key, or a beginning followed by *
  std::string_view why;      // what it is about, so that the next reader need not look it up
};

/// Keys of NeMo 1.x (megatron_gpt_config, megatron_gpt_finetuning_config, megatron_gpt_inference,
/// and the fields of Megatron-Core's TransformerConfig, which NeMo takes over by name) that a
/// performance model may pass over.
constexpr std::array known_keys{
    KnownKey{"name", "label of the run"},
    KnownKey{"exp_manager.*", "logging and checkpoints, outside of the step"},
    KnownKey{"hydra.*", "where configurations are searched"},
    KnownKey{"defaults", "what the launcher merges"},
    KnownKey{"run.name", "label of the run"},
    KnownKey{"run.results_dir", "where results go"},
    KnownKey{"run.time_limit", "of the queue"},
    KnownKey{"run.dependency", "of the queue"},
    KnownKey{"run.ntasks_per_node", "same as trainer.devices"},
    KnownKey{"run.convert_dir", "where results go"},
    KnownKey{"run.model_train_name", "label of the run"},
    KnownKey{"run.task_name", "label of the run"},
    KnownKey{"restore_from_path", "which weights, not how many"},

    KnownKey{"chat", "inference server"},
    KnownKey{"chatbot_config.*", "inference server"},
    KnownKey{"server", "inference server"},
    KnownKey{"port", "inference server"},
    KnownKey{"web_server", "inference server"},
    KnownKey{"web_port", "inference server"},
    KnownKey{"share", "inference server"},
    KnownKey{"username", "inference server"},
    KnownKey{"password", "inference server"},
    KnownKey{"inference.*", "how the next token is chosen"},
    KnownKey{"prompts", "inference input"},
    KnownKey{"gpt_model_file", "which weights, not how many"},
    KnownKey{"checkpoint_dir", "which weights, not how many"},
    KnownKey{"checkpoint_name", "which weights, not how many"},
    KnownKey{"hparams_file", "which weights, not how many"},

    KnownKey{"trainer.accelerator", "always gpu"},
    KnownKey{"trainer.benchmark", "cuDNN convolution search"},
    KnownKey{"trainer.callbacks", "outside of the step"},
    KnownKey{"trainer.enable_checkpointing", "outside of the step"},
    KnownKey{"trainer.enable_model_summary", "printing"},
    KnownKey{"trainer.enable_progress_bar", "printing"},
    KnownKey{"trainer.gradient_clip_val", "the norm is taken in any case"},
    KnownKey{"trainer.limit_test_batches", "length of the run"},
    KnownKey{"trainer.limit_train_batches", "length of the run"},
    KnownKey{"trainer.limit_val_batches", "length of the run"},
    KnownKey{"trainer.log_every_n_steps", "printing"},
    KnownKey{"trainer.logger", "printing"},
    KnownKey{"trainer.max_epochs", "length of the run"},
    KnownKey{"trainer.max_steps", "length of the run"},
    KnownKey{"trainer.max_time", "length of the run"},
    KnownKey{"trainer.num_sanity_val_steps", "outside of the step"},
    KnownKey{"trainer.replace_sampler_ddp", "order of the data"},
    KnownKey{"trainer.strategy", "chosen by NeMo"},
    KnownKey{"trainer.use_distributed_sampler", "order of the data"},
    KnownKey{"trainer.val_check_interval", "outside of the step"},

    KnownKey{"model.data.append_eod", "order of the data"},
    KnownKey{"model.data.data_impl", "data source"},
    KnownKey{"model.data.data_prefix", "data source"},
    KnownKey{"model.data.dataloader_type", "order of the data"},
    KnownKey{"model.data.delay_data_init", "start-up"},
    KnownKey{"model.data.delay_data_mmap", "start-up"},
    KnownKey{"model.data.dataset_type", "data source"},
    KnownKey{"model.data.eod_mask_loss", "which tokens count in the loss"},
    KnownKey{"model.data.exchange_indices_distributed", "start-up"},
    KnownKey{"model.data.index_mapping_dir", "data source"},
    KnownKey{"model.data.legacy_dataset", "data source"},
    KnownKey{"model.data.masked_lm_prob", "data source"},
    KnownKey{"model.data.mock_dataset", "data source"},
    KnownKey{"model.data.no_seqlen_plus_one_input_tokens", "data source"},
    KnownKey{"model.data.num_workers", "data loading runs beside the step"},
    KnownKey{"model.data.pad_samples_to_global_batch_size", "last batch of an epoch"},
    KnownKey{"model.data.pin_memory", "data loading runs beside the step"},
    KnownKey{"model.data.reset_attention_mask", "flash attention ignores it"},
    KnownKey{"model.data.reset_position_ids", "which positions, not how many"},
    KnownKey{"model.data.shuffle_documents", "order of the data"},
    KnownKey{"model.data.skip_warmup", "data source"},
    KnownKey{"model.data.splits_string", "data source"},
    KnownKey{"model.data.validation_drop_last", "outside of the step"},
    KnownKey{"model.data.chat*", "text of samples"},

    KnownKey{"model.optim.adamw_mode", "same work"},
    KnownKey{"model.optim.amsgrad", "same work"},
    KnownKey{"model.optim.betas", "numerics"},
    KnownKey{"model.optim.contiguous_grad_buffer", "NeMo always sets it for this optimizer"},
    KnownKey{"model.optim.contiguous_param_buffer", "copies of parameters are avoided either way"},
    KnownKey{"model.optim.eps", "numerics"},
    KnownKey{"model.optim.lock_timeout", "checkpoints"},
    KnownKey{"model.optim.lr", "numerics"},
    KnownKey{"model.optim.sched.*", "learning rate"},
    KnownKey{"model.optim.weight_decay", "numerics"},
    KnownKey{"model.optim.overlap_param_gather_with_optimizer_step", "first bucket only"},
    KnownKey{"model.optim.capturable", "stack"},

    KnownKey{"model.peft.adapter_tuning.*", "only with peft_scheme adapter, which is refused"},
    KnownKey{"model.peft.ia3_tuning.*", "only with peft_scheme ia3, which is refused"},
    KnownKey{"model.peft.p_tuning.*", "only with peft_scheme ptuning, which is refused"},
    KnownKey{"model.peft.selective_tuning.*", "only with that scheme, which is refused"},
    KnownKey{"model.peft.inference_tuning.*", "made up; nothing reads it"},
    KnownKey{"model.peft.lora_tuning.alpha", "numerics"},
    KnownKey{"model.peft.lora_tuning.column_init_method", "initialization"},
    KnownKey{"model.peft.lora_tuning.position_embedding_strategy", "only with weight_tying"},
    KnownKey{"model.peft.lora_tuning.row_init_method", "initialization"},
    KnownKey{"model.peft.lora_tuning.variant", "same work"},
    KnownKey{"model.peft.lora_tuning.dropout_position",
             "inputs or outputs, which are about as many"},
    KnownKey{"model.peft.restore_from_ckpt.*", "which weights, not how many"},
    KnownKey{"model.peft.restore_from_ckpt_name", "which weights, not how many"},
    KnownKey{"model.peft.restore_from_hparams_path", "which weights, not how many"},
    KnownKey{"model.peft.restore_from_path", "which weights, not how many"},

    KnownKey{"model.chakra_profile.*", "that it is on is read; the rest is where and when"},
    KnownKey{"model.nsys_profile.*", "that it is on is read; the rest is where and when"},
    KnownKey{"model.memory_profile.*", "one rank, outside of the step"},
    KnownKey{"model.target", "hparams.yaml: the class"},
    KnownKey{"model.nemo_version", "hparams.yaml"},

    KnownKey{"model.tokenizer.additional_special_tokens.*", "few tokens, inside the padding"},
    KnownKey{"model.tokenizer.delimiter", "text of samples"},
    KnownKey{"model.tokenizer.merge_file", "data source"},
    KnownKey{"model.tokenizer.sentencepiece_legacy", "text of samples"},
    KnownKey{"model.tokenizer.trust_remote_code", "text of samples"},
    KnownKey{"model.tokenizer.tokenizer_model", "data source"},
    KnownKey{"model.tokenizer.use_fast", "text of samples"},
    KnownKey{"model.tokenizer.vocab_file", "data source"},

    KnownKey{"model.activation_func_clamp_value", "numerics"},
    KnownKey{"model.answer_only_loss", "which tokens count in the loss"},
    KnownKey{"model.apex_transformer_log_level", "printing"},
    KnownKey{"model.apply_query_key_layer_scaling", "numerics"},
    KnownKey{"model.apply_rope_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.attention_softmax_in_fp32", "flash attention keeps it inside the kernel"},
    KnownKey{"model.attention_type", "multihead; grouping is read from num_query_groups"},
    KnownKey{"model.async_grad_allreduce", "set by the optimizer"},
    KnownKey{"model.barrier_with_L1_time", "timers"},
    KnownKey{"model.batch_p2p_comm", "how sends are posted"},
    KnownKey{"model.bias_activation_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.bias_dropout_add_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.bias_dropout_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.bias_gelu_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.clone_scatter_output_in_embedding", "one copy of the embedding's output"},
    KnownKey{"model.cross_entropy_loss_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.cpu_offloading_*", "only with cpu_offloading, which is refused"},
    KnownKey{"model.deallocate_pipeline_outputs", "kept in any case"},
    KnownKey{"model.defer_embedding_wgrad_compute", "moves one GEMM inside the step"},
    KnownKey{"model.deterministic_mode", "choice of kernels, part of the stack"},
    KnownKey{"model.disable_parameter_transpose_cache", "FP8 detail"},
    KnownKey{"model.dist_ckpt_*", "checkpoints"},
    KnownKey{"model.do_layer_norm_weight_decay", "numerics"},
    KnownKey{"model.enable_megatron_timers", "timers"},
    KnownKey{"model.end_strings", "inference input"},
    KnownKey{"model.ffn_dropout", "one elementwise kernel"},
    KnownKey{"model.fp16_lm_cross_entropy", "numerics"},
    KnownKey{"model.fp8_amax_compute_algo", "FP8 scaling"},
    KnownKey{"model.fp8_amax_history_len", "FP8 scaling"},
    KnownKey{"model.fp8_e4m3", "FP8 scaling"},
    KnownKey{"model.fp8_hybrid", "FP8 scaling"},
    KnownKey{"model.fp8_interval", "FP8 scaling"},
    KnownKey{"model.fp8_margin", "FP8 scaling"},
    KnownKey{"model.fp8_multi_head_attention", "FP8 detail"},
    KnownKey{"model.fsdp_sharded_checkpoint", "checkpoints"},
    KnownKey{"model.fsdp_use_orig_params", "same bytes and messages"},
    KnownKey{"model.gc_interval", "host pauses, part of the stack"},
    KnownKey{"model.get_attention_mask_from_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.grad_allreduce_chunk_size_mb", "bucket of optimizers that do not overlap here"},
    KnownKey{"model.grad_clip_val", "the norm is taken in any case"},
    KnownKey{"model.grad_div_ar_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.gradient_accumulation_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.gradient_as_bucket_view", "of PyTorch's own data parallelism"},
    KnownKey{"model.headscale", "numerics"},
    KnownKey{"model.hidden_dropout_*", "numerics"},
    KnownKey{"model.hysteresis", "loss scaling"},
    KnownKey{"model.init_method_std", "initialization"},
    KnownKey{"model.layernorm_epsilon", "numerics"},
    KnownKey{"model.layernorm_zero_centered_gamma", "numerics"},
    KnownKey{"model.masked_softmax_fusion", "flash attention keeps it inside the kernel"},
    KnownKey{"model.mcore_customization_config.*", "parallel attention is off by default"},
    KnownKey{"model.mcore_gpt", "Megatron-Core or NeMo's older layers: same work"},
    KnownKey{"model.megatron_timer_kwargs.*", "timers"},
    KnownKey{"model.memory_efficient_layer_norm", "one saved tensor"},
    KnownKey{"model.moe_aux_loss_coeff", "numerics"},
    KnownKey{"model.moe_input_jitter_eps", "numerics"},
    KnownKey{"model.moe_permute_fusion", "kernel fusion, part of the stack"},
    KnownKey{"model.moe_router_bias_update_rate", "numerics"},
    KnownKey{"model.moe_router_dtype", "numerics"},
    KnownKey{"model.moe_router_enable_expert_bias", "numerics"},
    KnownKey{"model.moe_router_load_balancing_type", "which expert, not how many"},
    KnownKey{"model.moe_router_pre_softmax", "numerics"},
    KnownKey{"model.moe_router_score_function", "numerics"},
    KnownKey{"model.moe_router_topk_scaling_factor", "numerics"},
    KnownKey{"model.moe_token_drop_policy", "which tokens, not how many"},
    KnownKey{"model.moe_token_dropping", "read from moe_expert_capacity_factor"},
    KnownKey{"model.moe_z_loss_coeff", "numerics"},
    KnownKey{"model.mrope_section", "numerics"},
    KnownKey{"model.name", "label of the run"},
    KnownKey{"model.native_amp_*", "loss scaling"},
    KnownKey{"model.nccl_communicator_config_path", "NCCL tuning, part of the stack"},
    KnownKey{"model.normalize_attention_scores", "numerics"},
    KnownKey{"model.num_moe_experts_*", "numerics"},
    KnownKey{"model.onnx_safe", "export"},
    KnownKey{"model.openai_gelu", "same work"},
    KnownKey{"model.perform_initialization", "start-up"},
    KnownKey{"model.persist_layer_norm", "kernel choice, part of the stack"},
    KnownKey{"model.post_process", "set by NeMo per stage"},
    KnownKey{"model.pre_process", "set by NeMo per stage"},
    KnownKey{"model.reduce_amax", "FP8 scaling"},
    KnownKey{"model.restore_from_path", "which weights, not how many"},
    KnownKey{"model.resume_from_checkpoint", "which weights, not how many"},
    KnownKey{"model.rotary_base", "numerics"},
    KnownKey{"model.rotary_interleaved", "numerics"},
    KnownKey{"model.rotary_percentage", "part of one elementwise kernel"},
    KnownKey{"model.save_nemo_on_validation_end", "checkpoints"},
    KnownKey{"model.scale_positional_embedding", "numerics"},
    KnownKey{"model.seed", "initialization"},
    KnownKey{"model.seq_len_interpolation_factor", "numerics"},
    KnownKey{"model.sharp", "in-network reduction of the data-parallel group; off by default"},
    KnownKey{"model.sync_batch_comm", "a device synchronization after sends; off by default"},
    KnownKey{"model.sync_params", "start-up"},
    KnownKey{"model.target", "which class"},
    KnownKey{"model.tp_comm_atomic_*", "choice of userbuffer kernel"},
    KnownKey{"model.tp_comm_bootstrap_backend", "start-up"},
    KnownKey{"model.tp_comm_bulk_*", "which GEMM hides a transfer"},
    KnownKey{"model.tp_comm_overlap_*", "which GEMM hides a transfer"},
    KnownKey{"model.tp_comm_split_*", "which GEMM hides a transfer"},
    KnownKey{"model.tp_only_amax_red", "FP8 scaling"},
    KnownKey{"model.transformer_block_type", "where the norms stand, not how many"},
    KnownKey{"model.transformer_engine", "kernel choice, part of the stack"},
    KnownKey{"model.ub_tp_comm_overlap_cfg*", "which GEMM hides a transfer"},
    KnownKey{"model.use_cpu_initialization", "start-up"},
    KnownKey{"model.use_emha", "kernel choice, part of the stack"},
    KnownKey{"model.use_scaled_init_method", "initialization"},
    KnownKey{"model.use_te_rng_tracker", "random numbers"},
    KnownKey{"model.wgrad_deferral_limit", "moves one GEMM inside the step"},
};

/// The same for every key of model.data.train_ds, validation_ds and test_ds: about the text of
/// samples. The three sizes are read of the data set that the job runs through, and only there.
constexpr std::array<std::string_view, 39> dataset_keys{"add_bos",
                                                        "add_eos",
                                                        "add_sep",
                                                        "chat",
                                                        "chat_prompt_tokens",
                                                        "concat_sampling_probabilities",
                                                        "context_key",
                                                        "drop_last",
                                                        "end_string_token",
                                                        "file_names",
                                                        "global_batch_size",
                                                        "global_sample_mapping",
                                                        "hf_dataset",
                                                        "index_mapping_dir",
                                                        "is_test",
                                                        "label_key",
                                                        "max_num_samples",
                                                        "max_seq_length",
                                                        "memmap_workers",
                                                        "metric",
                                                        "metric.average",
                                                        "metric.name",
                                                        "metric.num_classes",
                                                        "micro_batch_size",
                                                        "min_seq_length",
                                                        "names",
                                                        "num_workers",
                                                        "output_file_path_prefix",
                                                        "output_original_text",
                                                        "packed_sequence",
                                                        "pad_to_max_length",
                                                        "pin_memory",
                                                        "prompt_template",
                                                        "separate_prompt_and_response_with_newline",
                                                        "shuffle",
                                                        "tokens_to_generate",
                                                        "truncation_field",
                                                        "truncation_method",
                                                        "write_predictions_to_file"};

bool is_dataset_key(std::string_view key) {
  for (const std::string_view data : {"train_ds.", "validation_ds.", "test_ds."}) {
    const std::string prefix = "model.data." + std::string(data);
    if (!key.starts_with(prefix)) continue;
    key.remove_prefix(prefix.size());
    return std::find(dataset_keys.begin(), dataset_keys.end(), key) != dataset_keys.end();
  }
  return false;
}

bool matches(std::string_view pattern, std::string_view key) {
  if (!pattern.ends_with('*')) return pattern == key;
  pattern.remove_suffix(1);
  // "model.optim.sched.*" also covers an empty section, "model.optim.sched: null".
  return key.starts_with(pattern) ||
         (pattern.ends_with('.') && pattern.size() == key.size() + 1 && pattern.starts_with(key));
}

}  // namespace

bool is_irrelevant_nemo_key(std::string_view key) {
  return is_dataset_key(key) ||
         std::any_of(known_keys.begin(), known_keys.end(),
                     [&](const KnownKey& known) { return matches(known.pattern, key); });
}

std::vector<std::string> irrelevant_nemo_keys() {
  std::vector<std::string> keys;
  for (const KnownKey& known : known_keys)
    if (!known.pattern.ends_with('*')) keys.emplace_back(known.pattern);
  return keys;
}

}  // namespace triplepoint::formats
