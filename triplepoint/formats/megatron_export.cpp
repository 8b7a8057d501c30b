// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "triplepoint/base/quoting.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/pipeline_layout.h"

namespace triplepoint::formats {
namespace {

using spec::Job;
using spec::Model;
using spec::Plan;
using spec::Precision;
using spec::Sharding;

class ArgumentWriter {
 public:
  void flag(std::string_view name, bool on = true) {
    if (on) list(name, {});
  }
  void count(std::string_view name, int64_t value) { word(name, fmt::format("{}", value)); }
  void number(std::string_view name, double value) { word(name, fmt::format("{}", value)); }
  void word(std::string_view name, std::string_view value) { list(name, {std::string(value)}); }
  void list(std::string_view name, std::vector<std::string> words) {
    all.push_back({std::string(name), std::move(words)});
  }

  std::vector<MegatronArgument> all;
};

void write_activation(ArgumentWriter& out, const Model& model) {
  out.flag("swiglu", model.activation == spec::Activation::swiglu);
  out.flag("squared-relu", model.activation == spec::Activation::squared_relu);
}

void write_positions(ArgumentWriter& out, const Model& model) {
  const spec::PositionEmbedding positions = model.position_embedding;
  out.word("position-embedding-type", positions == spec::PositionEmbedding::rope ? "rope"
                                      : positions == spec::PositionEmbedding::none
                                          ? "none"
                                          : "learned_absolute");
}

void write_attention(ArgumentWriter& out, const Model& model) {
  out.count("num-attention-heads", model.num_attention_heads);
  if (model.num_query_groups != model.num_attention_heads) {
    out.flag("group-query-attention");
    out.count("num-query-groups", model.num_query_groups);
  }
  if (!model.latent_attention) return out.count("kv-channels", model.kv_channels);
  const spec::LatentAttention& latent = *model.latent_attention;
  out.flag("multi-latent-attention");
  if (latent.query_rank > 0) out.count("q-lora-rank", latent.query_rank);
  out.count("kv-lora-rank", latent.key_value_rank);
  out.count("qk-head-dim", model.kv_channels);
  out.count("qk-pos-emb-head-dim", latent.rope_head_dim);
  out.count("v-head-dim", latent.value_head_dim);
  if (latent.indexer_topk == 0) return;
  out.word("experimental-attention-variant", "dsa");
  out.count("dsa-indexer-n-heads", latent.indexer_heads);
  out.count("dsa-indexer-head-dim", latent.indexer_head_dim);
  out.count("dsa-indexer-topk", latent.indexer_topk);
}

void write_model(ArgumentWriter& out, const Model& model) {
  out.count("num-layers", model.num_layers);
  out.count("hidden-size", model.hidden_size);
  out.count("ffn-hidden-size", model.ffn_hidden_size);
  write_attention(out, model);
  out.count("seq-length", model.sequence_length);
  out.count("max-position-embeddings", model.sequence_length);
  write_positions(out, model);
  write_activation(out, model);
  out.word("normalization",
           model.normalization == spec::Normalization::rms_norm ? "RMSNorm" : "LayerNorm");
  out.flag("untie-embeddings-and-output-weights", !model.tied_embeddings);
  out.flag("disable-bias-linear", !model.biases);
  out.number("hidden-dropout", model.dropout);
  out.number("attention-dropout", model.dropout);
  out.count("make-vocab-size-divisible-by", model.vocabulary_divisible_by);
  // The null tokenizer adds a token that ends documents.
  out.word("tokenizer-type", "NullTokenizer");
  out.count("vocab-size", std::max<int64_t>(1, model.vocabulary_size - 1));
}

void write_experts(ArgumentWriter& out, const Model& model) {
  if (!model.moe) return;
  const spec::MixtureOfExperts& moe = *model.moe;
  out.count("num-experts", moe.num_experts);
  out.count("moe-router-topk", moe.router_topk);
  out.count("moe-ffn-hidden-size", moe.ffn_hidden_size);
  if (moe.capacity_factor) out.number("moe-expert-capacity-factor", *moe.capacity_factor);
  out.flag("moe-pad-expert-input-to-capacity", moe.pad_to_capacity);
  out.flag("moe-grouped-gemm", moe.grouped_gemm);
  out.word("moe-token-dispatcher-type", "alltoall");
  if (moe.shared_expert_ffn_hidden_size > 0)
    out.count("moe-shared-expert-intermediate-size", moe.shared_expert_ffn_hidden_size);
  if (moe.num_dense_layers > 0) out.word("moe-layer-freq", moe_pattern(model));
}

void write_pipeline(ArgumentWriter& out, const Plan& plan, std::vector<std::string>& unsupported) {
  out.count("pipeline-model-parallel-size", plan.pipeline_parallel_size);
  if (plan.virtual_pipeline_size > 1) {
    out.count("num-virtual-stages-per-pipeline-rank", plan.virtual_pipeline_size);
    out.flag("no-overlap-p2p-communication", !plan.overlap_pipeline);
  } else if (plan.overlap_pipeline) {
    unsupported.push_back(
        "overlapped sends between stages (Megatron has them in the interleaved schedule only)");
  }
  if (!plan.layers_per_stage.empty())
    out.word("pipeline-model-parallel-layout", write_pipeline_layout(plan.layers_per_stage));
  if (plan.schedule != spec::Schedule::zero_bubble) return;
  out.flag("enable-zero-bubble");
  unsupported.push_back(
      "that the zero-bubble schedule needs the zero-bubble branch of Megatron-LM");
}

void write_sizes(ArgumentWriter& out, const Plan& plan, std::vector<std::string>& unsupported) {
  out.count("tensor-model-parallel-size", plan.tensor_parallel_size);
  write_pipeline(out, plan, unsupported);
  out.count("context-parallel-size", plan.context_parallel_size);
  out.count("expert-model-parallel-size", plan.expert_parallel_size);
  if (plan.expert_tensor_parallel_size)
    out.count("expert-tensor-parallel-size", *plan.expert_tensor_parallel_size);
  if (plan.context_exchange == spec::ContextExchange::all_gather)
    out.word("cp-comm-type", "all_gather");
  out.flag("sequence-parallel", plan.sequence_parallel);
  out.flag("fp32-residual-connection", plan.fp32_residual);
  out.flag("use-tp-pp-dp-mapping", plan.rank_order == spec::RankOrder::tp_pp_dp);
  out.count("micro-batch-size", plan.micro_batch_size);
  out.count("global-batch-size", plan.global_batch_size);
}

void write_recompute(ArgumentWriter& out, const Plan& plan) {
  if (plan.recompute == spec::Recompute::none) return;
  const bool full = plan.recompute == spec::Recompute::full;
  out.word("recompute-granularity", full ? "full" : "selective");
  if (!plan.recompute_modules.empty()) out.list("recompute-modules", recompute_module_names(plan));
  if (!full) return;
  out.word("recompute-method", plan.recompute_layers ? "block" : "uniform");
  out.count("recompute-num-layers", plan.recompute_layers.value_or(1));
}

void write_precision(ArgumentWriter& out, const Plan& plan) {
  const bool mxfp8 = plan.precision == Precision::mxfp8;
  out.flag("bf16", plan.precision == Precision::bf16 || spec::is_quantized(plan.precision));
  out.flag("fp16", plan.precision == Precision::fp16);
  if (plan.precision == Precision::fp8) out.word("fp8-format", "hybrid");
  if (mxfp8) out.word("fp8-format", "e4m3");
  if (mxfp8) out.word("fp8-recipe", "mxfp8");
  if (plan.precision == Precision::nvfp4) out.word("fp4-format", "e2m1");
  out.flag("fp8-dot-product-attention", plan.fp8_attention);
  const bool half = plan.optimizer.gradient_sync_bytes < 4;
  out.flag("accumulate-allreduce-grads-in-fp32", plan.precision == Precision::fp16 && !half);
  out.flag("grad-reduce-in-bf16", plan.precision != Precision::fp16 && half);
}

/// Without peers the distributed optimizer shards nothing, but knows more types of state.
bool has_distributed_optimizer(const Job& job) {
  const int64_t replicas = job.data_parallel_size() * job.plan.context_parallel_size;
  return job.plan.sharding != Sharding::none || (replicas <= 1 && job.plan.optimizer.name != "sgd");
}

void write_sharding(ArgumentWriter& out, const Job& job) {
  const Plan& plan = job.plan;
  const bool keeps = plan.sharding == Sharding::parameters && !plan.reshard_after_forward;
  out.flag("use-distributed-optimizer", has_distributed_optimizer(job) && !keeps);
  out.flag("use-torch-fsdp2", keeps);
  out.flag("torch-fsdp2-no-reshard-after-forward", keeps);
  if ((plan.sharding == Sharding::parameters && !keeps) || plan.sharding == Sharding::gradients) {
    out.flag("use-megatron-fsdp");
    out.word("data-parallel-sharding-strategy",
             plan.sharding == Sharding::gradients ? "optim_grads" : "optim_grads_params");
  }
  if (plan.sharding_group_size > 0 && plan.sharding != Sharding::none)
    out.count("num-distributed-optimizer-instances",
              std::max<int64_t>(1, job.data_parallel_size() / plan.sharding_group_size));
}

std::string_view type_of_bytes(double bytes) {
  return bytes >= 4 ? "fp32" : bytes >= 2 ? "bf16" : "fp8";
}

/// Whether each part of the state is as wide as one of the types that Megatron knows for it.
bool has_types(const spec::OptimizerState& state) {
  const double moment = state.moment_bytes / 2;
  return state.weight_bytes == 2 && (state.gradient_bytes == 2 || state.gradient_bytes == 4) &&
         (state.master_bytes == 2 || state.master_bytes == 4) &&
         (moment == 1 || moment == 2 || moment == 4);
}

/// What the state keeps beside Megatron's usual 4 + 8 + 4 bytes needs its precision-aware
/// optimizer.
void write_optimizer(ArgumentWriter& out, const Job& job, std::vector<std::string>& unsupported) {
  const Plan& plan = job.plan;
  const spec::OptimizerState& state = plan.optimizer;
  const bool sgd = state.name == "sgd";
  out.word("optimizer", sgd ? "sgd" : "adam");
  const bool fp32 = plan.precision == Precision::fp32;
  const double gradients = plan.precision == Precision::fp32 ? 4 : state.gradient_sync_bytes;
  const bool usual = state.weight_bytes == (fp32 ? 4 : 2) && state.gradient_bytes == gradients &&
                     state.moment_bytes == (sgd ? 4 : 8) && state.master_bytes == (fp32 ? 0 : 4);
  if (usual) return;
  if (!has_distributed_optimizer(job) || fp32 || sgd || !has_types(state)) {
    unsupported.push_back(
        fmt::format("the bytes of optimizer {} (Megatron's own keeps 18 a parameter "
                    "unless it is sharded and precision-aware)",
                    state.name));
    return;
  }
  out.flag("use-precision-aware-optimizer");
  out.word("main-grads-dtype", type_of_bytes(state.gradient_bytes));
  out.word("main-params-dtype", state.master_bytes >= 4 ? "fp32" : "fp16");
  out.word("exp-avg-dtype", type_of_bytes(state.moment_bytes / 2));
  out.word("exp-avg-sq-dtype", type_of_bytes(state.moment_bytes / 2));
}

/// Whether the exported command overlaps the exchange between experts.
bool overlaps_experts(const Job& job) {
  return job.plan.overlap_expert &&
         spec::broken_condition_of_expert_overlap(job.model, job.plan).empty();
}

void write_overlap(ArgumentWriter& out, const Job& job, std::vector<std::string>& unsupported) {
  const Plan& plan = job.plan;
  out.flag("tp-comm-overlap", plan.overlap_tensor);
  out.flag("overlap-grad-reduce", plan.overlap_gradient);
  out.flag("overlap-param-gather", plan.overlap_parameter);
  out.flag("overlap-moe-expert-parallel-comm", overlaps_experts(job));
  if (plan.overlap_expert && !overlaps_experts(job))
    unsupported.push_back(
        fmt::format("the overlapped exchange between experts (Megatron-Core has it only {})",
                    spec::broken_condition_of_expert_overlap(job.model, plan)));
  if (plan.gradient_bucket)
    out.number("ddp-bucket-size",
               std::round(*plan.gradient_bucket / unit::B / plan.optimizer.gradient_sync_bytes));
}

void write_run(ArgumentWriter& out, const Job& job) {
  if (job.stack.cuda_graphs) out.word("cuda-graph-impl", "transformer_engine");
  out.word("wandb-exp-name", job.name);
  out.flag("mock-data");
  out.word("split", "99,1,0");
  out.count("train-iters", 20);
  out.count("eval-iters", 0);
  out.number("lr", 1e-4);
  out.number("min-lr", 1e-5);
  out.count("log-interval", 1);
  out.flag("log-throughput");
}

/// Megatron-LM refuses to start it with CUDA_DEVICE_MAX_CONNECTIONS=1.
bool has_fsdp(const Plan& plan) {
  return plan.sharding == Sharding::parameters || plan.sharding == Sharding::gradients;
}

void check_task(const Job& job, std::vector<std::string>& unsupported) {
  if (job.plan.cuda_device_max_connections == 1 && has_fsdp(job.plan))
    unsupported.push_back(
        "cuda_device_max_connections 1 (Megatron-LM refuses FSDP with it; the command sets 32)");
  if (job.task == spec::Task::lora || job.plan.lora)
    unsupported.push_back("LoRA (Megatron-LM has none: the command trains every weight)");
  if (job.task == spec::Task::prefill || job.task == spec::Task::decode)
    unsupported.push_back("that the job is inference (the command trains)");
}

std::string launcher(const Job& job) {
  // One queue orders a transfer before the kernel that it hides behind. Two microbatches at once
  // need more of them.
  const int connections = overlaps_experts(job) || has_fsdp(job.plan) ? 32 : 1;
  return fmt::format(
      "TRIPLEPOINT_CLUSTER={} TRIPLEPOINT_STACK={} TRIPLEPOINT_MODEL={} "
      "TRIPLEPOINT_OPTIMIZER={} \\\n"
      "CUDA_DEVICE_MAX_CONNECTIONS={} torchrun --nnodes {} --nproc-per-node {} \\\n"
      "    --node-rank \"${{NODE_RANK:-0}}\" --master-addr \"${{MASTER_ADDR:-localhost}}\" "
      "--master-port 29500 \\\n"
      "    pretrain_gpt.py",
      shell_word(job.cluster.name), shell_word(job.stack.name), shell_word(job.model.name),
      shell_word(job.plan.optimizer.name), connections, job.cluster.num_nodes,
      job.cluster.gpus_per_node);
}

}  // namespace

std::vector<MegatronArgument> megatron_arguments(const Job& job,
                                                 std::vector<std::string>& unsupported) {
  unsupported = unsupported_by_launch_files(job);
  ArgumentWriter out;
  write_model(out, job.model);
  write_experts(out, job.model);
  write_sizes(out, job.plan, unsupported);
  write_recompute(out, job.plan);
  write_precision(out, job.plan);
  write_sharding(out, job);
  write_optimizer(out, job, unsupported);
  write_overlap(out, job, unsupported);
  write_run(out, job);
  check_task(job, unsupported);
  if (job.records)
    unsupported.emplace_back(
        "how records are padded or packed (pretrain_gpt.py fills every sequence)");
  return std::move(out.all);
}

Exported export_megatron_args(const Job& job) {
  Exported result;
  std::string lines;  // of a continued command
  for (const auto& [name, words] : megatron_arguments(job, result.unsupported_settings)) {
    lines += fmt::format(" \\\n    --{}", name);
    for (const std::string& word : words)
      lines += " " + shell_word(word);
  }
  result.text = fmt::format("#!/bin/bash\n# Start on each of {} nodes, in Megatron-LM.\n{}{}{}\n",
                            job.cluster.num_nodes, comments_of(result.unsupported_settings),
                            launcher(job), lines);
  return result;
}

}  // namespace triplepoint::formats
