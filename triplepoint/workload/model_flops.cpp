// SPDX-License-Identifier: Apache-2.0
// Flops of one step as MFU and HFU count them: a convention, not what kernels execute (formulas and
// sources: model_flops.h).
//
// The numerator of MFU is counted from the model's shape alone, so that two plans of one model
// share it. Causal attention counts in full, capacity and padding count nothing; the kernels' own
// flops are in the ops (op_makers.cpp, attention.cpp) and differ on purpose.
#include "triplepoint/workload/model_flops.h"

#include <cmath>

#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/record_rows.h"

namespace triplepoint::workload {
namespace {

using spec::RecomputeModule;

double feed_forward_weights(const spec::Model& model, int64_t width, int64_t ffn) {
  const double gates = model.activation == spec::Activation::swiglu ? 3 : 2;
  return gates * real(width * ffn);
}

/// From the low ranks to queries, keys and values.
double latent_up_weights(const spec::Model& model) {
  const spec::LatentAttention& latent = *model.latent_attention;
  const double query = real(model.kv_channels + latent.rope_head_dim);
  const double key_value = real(model.kv_channels + latent.value_head_dim);
  return real(model.num_attention_heads) *
         (real(latent.query_rank) * query + real(latent.key_value_rank) * key_value);
}

double attention_weights(const spec::Model& model) {
  const double hidden = real(model.hidden_size), heads = real(model.num_attention_heads);
  if (!model.latent_attention) {
    const double d = real(model.kv_channels);
    return hidden * d * (2 * heads + 2 * real(model.num_query_groups));
  }
  const spec::LatentAttention& latent = *model.latent_attention;
  const double indexer = hidden * real(latent.indexer_head_dim + latent.indexer_heads) +
                         real(latent.query_rank * latent.indexer_heads * latent.indexer_head_dim);
  return hidden * real(latent.query_rank + latent.key_value_rank + latent.rope_head_dim) + indexer +
         latent_up_weights(model) + heads * real(latent.value_head_dim) * hidden;
}

double shared_expert_weights(const spec::Model& model) {
  return feed_forward_weights(model, model.hidden_size, model.moe->shared_expert_ffn_hidden_size);
}

double expert_weights(const spec::Model& model) {
  const spec::MixtureOfExperts& moe = *model.moe;
  const int64_t width = moe.latent_size.value_or(model.hidden_size);
  const double latent = moe.latent_size ? 2 * real(model.hidden_size * width) : 0;
  return real(moe.router_topk) * feed_forward_weights(model, width, moe.ffn_hidden_size) +
         shared_expert_weights(model) + real(model.hidden_size * moe.num_experts) + latent;
}

double state_space_weights(const spec::Model& model) {
  const spec::StateSpace& space = *model.state_space;
  const int64_t inner = space.inner_width();
  return real(model.hidden_size) *
         real(3 * inner + 2 * space.num_groups * space.state_size + space.num_heads);
}

/// Matrices that one token is multiplied with.
double layer_weights(const spec::Model& model, LayerKind kind) {
  if (kind == LayerKind::state_space) return state_space_weights(model);
  double weights = spec::has_attention(kind) ? attention_weights(model) : 0;
  if (spec::has_dense_mlp(kind))
    weights += feed_forward_weights(model, model.hidden_size, model.ffn_hidden_size);
  if (spec::has_experts(kind)) weights += expert_weights(model);
  return weights;
}

/// The convention of full attention, which counts twice what a causal mask leaves, for a window
/// too.
double counted_keys(double keys, int64_t window) {
  return window == 0 ? keys : 2 * mean_keys(std::llround(keys), window);
}

/// Per token that attends to `keys`: attention in full, twice what a causal kernel does, windows
/// too; the scan of a state space as Megatron-LM counts it.
double core_flops(const spec::Model& model, LayerKind kind, double keys) {
  if (kind == LayerKind::state_space)
    return 7 * real(model.state_space->inner_width() * model.state_space->state_size);
  if (!spec::has_attention(kind)) return 0;
  const double heads = real(model.num_attention_heads), width = real(core_head_dim(model));
  const int64_t seen = spec::is_windowed(kind) ? model.sliding_window->size : indexer_topk(model);
  return 4 * (counted_keys(keys, seen) * heads) * width;
}

/// Per token and score: the indexer's product, of all keys or of those that attention reads.
double indexer_flops(const spec::Model& model, LayerKind kind, double keys, int64_t seen) {
  if (!spec::has_attention(kind) || indexer_topk(model) == 0) return 0;
  const spec::LatentAttention& latent = *model.latent_attention;
  return 2 * counted_keys(keys, seen) * real(latent.indexer_heads * latent.indexer_head_dim);
}

double forward_flops(const spec::Model& model, LayerKind kind, double keys) {
  return 2 * layer_weights(model, kind) + core_flops(model, kind, keys) +
         indexer_flops(model, kind, keys, 0);
}

/// Per token and layer: the products of what selective recompute repeats.
double selected_flops(const spec::Job& job, LayerKind kind, double keys) {
  const spec::Model& model = job.model;
  const auto again = [&](RecomputeModule module) { return job.plan.recomputes(module); };
  double flops = 0;
  if (spec::has_attention(kind)) {
    if (again(RecomputeModule::core_attn)) flops += core_flops(model, kind, keys);
    if (model.latent_attention && again(RecomputeModule::mla_up_proj))
      flops += 2 * latent_up_weights(model);
  }
  if (spec::has_dense_mlp(kind) && again(RecomputeModule::mlp))
    flops += 2 * feed_forward_weights(model, model.hidden_size, model.ffn_hidden_size);
  if (!spec::has_experts(kind)) return flops;
  if (again(RecomputeModule::moe)) return flops + 2 * expert_weights(model);
  return again(RecomputeModule::shared_experts) ? flops + 2 * shared_expert_weights(model) : flops;
}

/// Per token: what recompute repeats in a chunk.
double repeated_flops(const spec::Job& job, const ChunkLayers& chunk, double keys) {
  const bool selective = job.plan.recompute == spec::Recompute::selective;
  const LayerCounts again = selective ? chunk.count : recomputed_layers(job, chunk);
  double flops = 0;
  for (const LayerKind kind : all_layer_kinds)
    if (again[kind] > 0)
      flops += real(again[kind]) *
               (selective ? selected_flops(job, kind, keys) : forward_flops(job.model, kind, keys));
  return flops;
}

/// How often a matrix product of the forward pass counts.
double passes_over_matrices(const spec::Job& job) {
  if (job.task == spec::Task::prefill || job.task == spec::Task::decode) return 1;
  // A frozen base has no weight gradients; adapters are small and count nothing.
  return job.plan.lora ? 2 : 3;
}

double passes_over_core(const spec::Job& job) {
  return job.task == spec::Task::prefill || job.task == spec::Task::decode ? 1 : 3;
}

/// One layer and token, in all passes.
double trained_flops(const spec::Job& job, LayerKind kind, double keys) {
  const spec::Model& model = job.model;
  const bool backward = passes_over_core(job) > 1;
  return passes_over_matrices(job) * 2 * layer_weights(model, kind) +
         passes_over_core(job) * core_flops(model, kind, keys) +
         indexer_flops(model, kind, keys, 0) +
         (backward ? 2 * indexer_flops(model, kind, keys, indexer_topk(model)) : 0);
}

/// Per token, of all depths of multi-token prediction.
double prediction_flops(const spec::Job& job, double head, double keys) {
  const double hidden = real(job.model.hidden_size);
  double depth = head + passes_over_matrices(job) * 2 * 2 * hidden * hidden;
  for (const LayerKind kind : spec::kinds_of_prediction(job.model))
    depth += trained_flops(job, kind, keys);
  return real(job.model.prediction_depths()) * depth;
}

/// Tokens of a step, and how many each attends to: the convention of full attention.
struct Counted {
  double tokens, keys;
};

/// Of the records alone.
Counted counted_tokens(const spec::Job& job) {
  const RowContent row = row_content(job);
  return {real(tokens_per_step(job)), row.squares / row.tokens};
}

/// Of the rows that are computed, padding included.
Counted computed_tokens(const spec::Job& job) {
  const RowShape row = row_shape(job);
  return {real(job.plan.global_batch_size * row.length), row.squares / real(row.length)};
}

struct StepSum {
  double model = 0, repeated = 0, core = 0;
};

StepSum sum_of_step(const spec::Job& job, const Counted& counted) {
  const bool training = job.task == spec::Task::pretrain || job.task == spec::Task::lora;
  const auto [tokens, keys] = counted;
  double per_token = 0, repeated = 0, core = 0;
  for (const auto& stage : lay_out_layers(job)) {
    for (const ChunkLayers& chunk : stage) {
      for (const LayerKind kind : all_layer_kinds) {
        if (chunk.count[kind] == 0) continue;
        per_token += real(chunk.count[kind]) * trained_flops(job, kind, keys);
        if (spec::has_attention(kind))
          core +=
              real(chunk.count[kind]) * passes_over_core(job) * core_flops(job.model, kind, keys);
      }
      if (training) repeated += repeated_flops(job, chunk, keys);
    }
  }
  const double head = 2 * real(job.model.hidden_size) *
                      real(spec::padded_vocabulary(job.model, 1)) * passes_over_matrices(job);
  const double head_tokens = training ? tokens : real(job.plan.global_batch_size);
  double model_flops = per_token * tokens + head * head_tokens;
  if (training) model_flops += prediction_flops(job, head, keys) * tokens;
  return {model_flops, repeated * tokens, core * tokens};
}

}  // namespace

int64_t tokens_per_step(const spec::Job& job) {
  if (job.task == spec::Task::decode) return job.plan.global_batch_size;
  return std::llround(real(job.plan.global_batch_size) * row_content(job).tokens);
}

int64_t records_per_step(const spec::Job& job) {
  return std::llround(real(job.plan.global_batch_size) * row_content(job).records);
}

StepFlops count_step_flops(const spec::Job& job) {
  const StepSum useful = sum_of_step(job, counted_tokens(job));
  const StepSum computed = job.records ? sum_of_step(job, computed_tokens(job)) : useful;
  return {.model = useful.model * unit::FLOP,
          .hardware = (computed.model + computed.repeated) * unit::FLOP,
          .core = useful.core * unit::FLOP};
}

}  // namespace triplepoint::workload
