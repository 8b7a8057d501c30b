// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/model_flops.h"

#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/layer_layout.h"

namespace triplepoint::workload {
namespace {

double feed_forward_weights(const spec::Model& model, int64_t ffn) {
  const double gates = model.activation == spec::Activation::swiglu ? 3 : 2;
  return gates * real(model.hidden_size * ffn);
}

double attention_weights(const spec::Model& model) {
  const double hidden = real(model.hidden_size), heads = real(model.num_attention_heads);
  if (!model.latent_attention) {
    const double d = real(model.kv_channels);
    return hidden * d * (2 * heads + 2 * real(model.num_query_groups));
  }
  const spec::LatentAttention& latent = *model.latent_attention;
  const double query = real(model.kv_channels + latent.rope_head_dim);
  const double key_value = real(model.kv_channels + latent.value_head_dim);
  return hidden * real(latent.query_rank + latent.key_value_rank + latent.rope_head_dim) +
         heads * (real(latent.query_rank) * query + real(latent.key_value_rank) * key_value +
                  real(latent.value_head_dim) * hidden);
}

double mlp_weights(const spec::Model& model, bool moe_layer) {
  if (!moe_layer) return feed_forward_weights(model, model.ffn_hidden_size);
  const spec::MixtureOfExperts& moe = *model.moe;
  return real(moe.router_topk) * feed_forward_weights(model, moe.ffn_hidden_size) +
         feed_forward_weights(model, moe.shared_expert_ffn_hidden_size) +
         real(model.hidden_size * moe.num_experts);
}

double core_flops(const spec::Model& model) {
  return 4 * real(model.sequence_length * model.num_attention_heads) * real(core_head_dim(model));
}

double forward_flops(const spec::Model& model, bool moe_layer) {
  return 2 * (attention_weights(model) + mlp_weights(model, moe_layer)) + core_flops(model);
}

/// Per token: what recompute repeats in a chunk.
double repeated_flops(const spec::Job& job, const ChunkLayers& chunk) {
  if (job.plan.recompute == spec::Recompute::selective)
    return real(chunk.layers()) * core_flops(job.model);
  const RecomputedLayers again = recomputed_layers(job.plan, chunk);
  double flops = real(again.dense) * forward_flops(job.model, false);
  if (again.moe > 0) flops += real(again.moe) * forward_flops(job.model, true);
  return flops;
}

/// How often a matrix product of the forward pass counts.
double passes_over_matrices(const spec::Job& job) {
  if (job.task == spec::Task::prefill || job.task == spec::Task::decode) return 1;
  return job.plan.lora ? 2 : 3;
}

double passes_over_core(const spec::Job& job) {
  return job.task == spec::Task::prefill || job.task == spec::Task::decode ? 1 : 3;
}

}  // namespace

int64_t tokens_per_step(const spec::Job& job) {
  return job.plan.global_batch_size *
         (job.task == spec::Task::decode ? 1 : job.model.sequence_length);
}

StepFlops count_step_flops(const spec::Job& job) {
  const bool training = job.task == spec::Task::pretrain || job.task == spec::Task::lora;
  const double matrices = passes_over_matrices(job), core = passes_over_core(job);
  double per_token = 0, repeated = 0;
  for (const auto& stage : lay_out_layers(job)) {
    for (const ChunkLayers& chunk : stage) {
      const double attention = core_flops(job.model);
      if (chunk.dense > 0)
        per_token += real(chunk.dense) *
                     (matrices * (forward_flops(job.model, false) - attention) + core * attention);
      if (chunk.moe > 0)
        per_token += real(chunk.moe) *
                     (matrices * (forward_flops(job.model, true) - attention) + core * attention);
      if (training) repeated += repeated_flops(job, chunk);
    }
  }
  const double head =
      2 * real(job.model.hidden_size) * real(spec::padded_vocabulary(job.model, 1)) * matrices;
  const double tokens = real(tokens_per_step(job));
  const double head_tokens = training ? tokens : real(job.plan.global_batch_size);
  const double model_flops = per_token * tokens + head * head_tokens;
  return {model_flops * unit::FLOP, (model_flops + repeated * tokens) * unit::FLOP};
}

}  // namespace triplepoint::workload
