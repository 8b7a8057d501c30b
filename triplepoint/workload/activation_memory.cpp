// SPDX-License-Identifier: Apache-2.0
// What a layer keeps between its forward and its backward pass, part by part (table and symbols:
// activation_memory.h).
//
// The rule: a tensor counts once, if a backward kernel reads it. Outputs that nothing reads again
// (a residual sum's operands, a product whose result is only added) count nothing. Recompute is
// then a subtraction: whole layer less what its modules write (discarded_bytes), so that a module
// has one place where its bytes stand. Element sizes differ by reader: a GEMM keeps its input in
// the precision it multiplies in, a norm keeps the trunk's.
#include "triplepoint/workload/activation_memory.h"

#include <algorithm>
#include <string_view>

#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/feed_forward.h"
#include "triplepoint/workload/state_space.h"

namespace triplepoint::workload {
namespace {

using spec::RecomputeModule;

/// Inputs of GEMMs are kept as the GEMM reads them.
double stored_input_element(const LayerContext& context) {
  if (context.plan().precision == spec::Precision::nvfp4) return 0.5;
  return spec::is_quantized(context.plan().precision) ? 1 : context.share.element;
}

double dropout_mask(const LayerContext& context) {
  return context.model().dropout > 0 ? real(context.share.sharded_tokens * context.share.hidden)
                                     : 0;
}

/// Bytes per element of a linear layer's input that stay for its weight gradient. A frozen weight
/// has none, but the adapter beside it, which multiplies in the activations' precision.
double stored_input_element(const LayerContext& context, std::string_view lora_target) {
  if (!context.share.frozen) return stored_input_element(context);
  return is_adapted(context, lora_target) ? context.share.element : 0;
}

/// Of an adapter, per dropped input.
double adapter_mask(const LayerContext& context, std::string_view lora_target) {
  return is_adapted(context, lora_target) && context.plan().lora->dropout > 0 ? 1 : 0;
}

/// An adapter keeps its input gathered over TP.
double norm_output_bytes(const LayerContext& context, std::string_view reader) {
  const RankShare& share = context.share;
  const int64_t tokens = share.frozen ? share.tokens : share.sharded_tokens;
  return stored_input_element(context, reader) * real(tokens * share.hidden) +
         adapter_mask(context, reader) * real(share.sharded_tokens * share.hidden);
}

/// Trunk, norm output (what `reader` multiplies) and dropout mask at the edge of attention or MLP.
double branch_edge_bytes(const LayerContext& context, std::string_view reader) {
  const RankShare& share = context.share;
  const double trunk = share.residual * real(share.sharded_tokens * share.hidden);
  return trunk + norm_output_bytes(context, reader) + dropout_mask(context);
}

double score_bytes(const LayerContext& context) {
  const RankShare& share = context.share;
  if (context.stack().has_flash_attention()) return 0;
  const double scores =
      real(share.sequences * share.heads) * real(share.query_length) * real(share.key_length);
  return scores * (context.model().dropout > 0 ? 2 * share.element + 1 : share.element);
}

double latent_bytes(const LayerContext& context) {
  if (!context.model().latent_attention) return 0;
  const spec::LatentAttention& latent = *context.model().latent_attention;
  // Before and after the norms of the low ranks; the indexer's queries, key and weights, and the
  // numbers of the keys that it chose.
  const int64_t ranks = 2 * (latent.query_rank + latent.key_value_rank);
  const int64_t indexer =
      (latent.indexer_heads + 1) * latent.indexer_head_dim + latent.indexer_heads;
  return real(context.share.tokens) *
         (context.share.element * real(ranks + indexer) + 4 * real(latent.indexer_topk));
}

/// Bytes of an element of what attention's backward pass reads.
double core_element(const LayerContext& context) {
  return context.plan().attends_in_fp8() ? 1 : context.share.element;
}

/// Queries, keys and values.
double core_input_bytes(const LayerContext& context) {
  const double query = real(context.share.heads * core_head_dim(context.model()));
  return core_element(context) * real(context.share.tokens) * (query + key_value_width(context));
}

double attention_bytes(const LayerContext& context) {
  const RankShare& share = context.share;
  const double query = real(share.heads * core_head_dim(context.model()));
  // The core keeps its output as it wrote it. An fp8 projection keeps its own copy, and so does an
  // adapter that drops inputs or does not multiply in the core's precision.
  const double core = core_element(context), mask = adapter_mask(context, "attention_dense");
  const bool copied = share.frozen ? mask > 0 || core != share.element
                                   : spec::is_quantized(context.plan().precision);
  const double copy = copied ? stored_input_element(context, "attention_dense") : 0;
  const double output = (core + copy + mask) * real(share.tokens) * query;
  // Fused attention keeps a log-sum-exp in floats per query and head instead of the scores.
  const double sums =
      context.stack().has_flash_attention() ? 4 * real(share.tokens * share.heads) : 0;
  return core_input_bytes(context) + output + sums + score_bytes(context) + latent_bytes(context);
}

/// Product before the activation, and after it; a gate that is written op by op keeps its
/// activation, too, since the product with the other half reads it.
double hidden_units_bytes(const LayerContext& context, double rows, int64_t ffn) {
  const bool narrow =
      context.stack().fp8_gate_inputs && spec::is_quantized(context.plan().precision);
  const double gate_input = real(context.share.gates) * (narrow ? 1 : context.share.element);
  const bool separate_gate = context.share.gates == 2 && !context.stack().fused_activations;
  const double activated = separate_gate ? context.share.element : 0;
  return rows * real(ffn) * (gate_input + activated + stored_input_element(context, "mlp_fc2"));
}

double shared_expert_bytes(const LayerContext& context) {
  const int64_t ffn = context.model().moe->shared_expert_ffn_hidden_size;
  return hidden_units_bytes(context, real(context.share.tokens),
                            divide_up(ffn, context.share.tensor));
}

/// What the experts' second product reads.
double expert_activation_bytes(const LayerContext& context) {
  const int64_t ffn = divide_up(context.model().moe->ffn_hidden_size, context.share.expert_tensor);
  return stored_input_element(context, "mlp_fc2") * real(count_expert_rows(context).computed * ffn);
}

/// Rows as the experts read them; moving rows keeps places, not rows. Where the router's weights
/// are not applied within the experts' activation, the rows as they came back, too. Source:
/// Megatron-Core, transformer/moe (token_dispatcher.py, experts.py: permuted_probs).
double experts_bytes(const LayerContext& context) {
  const RankShare& share = context.share;
  const spec::MixtureOfExperts& moe = *context.model().moe;
  const ExpertRows rows = count_expert_rows(context);
  // The gradient of a router's weight needs the row that it multiplies: within the experts'
  // activation that row is kept anyway, behind the combine it is one more tensor.
  const bool weighs_late = context.stack().gradients_in_place || !context.stack().fused_activations;
  const double kept = stored_input_element(context) * real(rows.computed) +
                      (weighs_late ? share.element * real(rows.sent) : 0);
  const int64_t ffn = divide_up(moe.ffn_hidden_size, share.expert_tensor);
  return kept * real(expert_width(context)) +
         hidden_units_bytes(context, real(rows.computed), ffn) + shared_expert_bytes(context);
}

double mlp_bytes(const LayerContext& context, LayerKind kind) {
  if (spec::has_experts(kind)) return experts_bytes(context);
  return hidden_units_bytes(context, real(context.share.tokens), context.share.ffn);
}

/// Of the MLP or the experts, what selective recompute lets go.
double discarded_mlp_bytes(const LayerContext& context, LayerKind kind) {
  const auto again = [&](RecomputeModule module) { return context.plan().recomputes(module); };
  double bytes = again(RecomputeModule::layernorm) ? norm_output_bytes(context, "mlp_fc1") : 0;
  if (!spec::has_experts(kind))
    return again(RecomputeModule::mlp) ? bytes + mlp_bytes(context, kind) : bytes;
  // Contains the shared experts and the activations: the smaller modules add nothing to it.
  if (again(RecomputeModule::moe)) return bytes + experts_bytes(context);
  if (again(RecomputeModule::moe_act)) bytes += expert_activation_bytes(context);
  if (again(RecomputeModule::shared_experts)) bytes += shared_expert_bytes(context);
  return bytes;
}

double discarded_attention_bytes(const LayerContext& context) {
  const auto again = [&](RecomputeModule module) { return context.plan().recomputes(module); };
  const bool latent = context.model().latent_attention.has_value();
  double bytes =
      again(RecomputeModule::layernorm) ? norm_output_bytes(context, "attention_qkv") : 0;
  if (again(RecomputeModule::core_attn)) bytes += score_bytes(context);
  if (latent && again(RecomputeModule::mla_up_proj)) bytes += core_input_bytes(context);
  return bytes;
}

double whole_layer_bytes(const LayerContext& context, LayerKind kind);

/// What checkpointing by operator keeps: the layer's input, attention's output, and the results of
/// every second product (query and value; gate). The last product's result, which no backward pass
/// reads, stays where nothing is compiled.
/// Source: torchtitan, models/llama3/infra/parallelize.py, _apply_ac_to_transformer_block.
double between_gemms_bytes(const LayerContext& context, LayerKind kind) {
  const RankShare& share = context.share;
  const double e = share.element, tokens = real(share.tokens);
  double kept = checkpoint_bytes(context);
  if (spec::has_attention(kind))
    kept += e * tokens *
                (2 * real(share.heads * core_head_dim(context.model())) +
                 key_value_width(context) / 2) +
            4 * tokens * real(share.heads);
  if (spec::has_dense_mlp(kind)) kept += e * tokens * real(share.ffn);
  if (!context.stack().fused_activations) kept += e * tokens * real(share.hidden);
  return kept;
}

/// Of a layer, what selective recompute lets go until its backward pass.
double discarded_bytes(const LayerContext& context, LayerKind kind) {
  if (context.plan().recomputes(RecomputeModule::alternate_gemms))
    return whole_layer_bytes(context, kind) - between_gemms_bytes(context, kind);
  if (kind == LayerKind::state_space)
    return context.plan().recomputes(RecomputeModule::layernorm) ? norm_output_bytes(context, {})
                                                                 : 0;
  double bytes = 0;
  if (spec::has_attention(kind)) bytes += discarded_attention_bytes(context);
  if (spec::has_dense_mlp(kind) || spec::has_experts(kind))
    bytes += discarded_mlp_bytes(context, kind);
  return bytes;
}

double attention_layer_bytes(const LayerContext& context) {
  return branch_edge_bytes(context, "attention_qkv") + attention_bytes(context);
}

double state_space_layer_bytes(const LayerContext& context) {
  const double out = real(context.share.tokens * state_space_share(context).inner());
  return branch_edge_bytes(context, {}) + state_space_activation_bytes(context) +
         stored_input_element(context) * out;
}

/// Without recompute.
double whole_layer_bytes(const LayerContext& context, LayerKind kind) {
  if (kind == LayerKind::state_space) return state_space_layer_bytes(context);
  double bytes = 0;
  if (spec::has_attention(kind)) bytes += attention_layer_bytes(context);
  if (kind != LayerKind::attention)
    bytes += branch_edge_bytes(context, "mlp_fc1") + mlp_bytes(context, kind);
  return bytes;
}

}  // namespace

double layer_activation_bytes(const LayerContext& context, LayerKind kind) {
  return whole_layer_bytes(context, kind) - discarded_bytes(context, kind);
}

double prediction_activation_bytes(const LayerContext& context) {
  const RankShare& share = context.share;
  const double trunk = real(share.sharded_tokens * share.hidden);
  double bytes = (2 * share.residual + 2 * stored_input_element(context)) * trunk;
  for (const LayerKind kind : spec::kinds_of_prediction(context.model()))
    bytes += layer_activation_bytes(context.of_kind(kind), kind);
  return bytes + branch_edge_bytes(context, {}) - dropout_mask(context);
}

double served_layer_bytes(const LayerContext& context, LayerKind kind) {
  const RankShare& share = context.share;
  const double e = share.element, hidden = real(share.hidden), tokens = real(share.tokens);
  if (kind == LayerKind::state_space)
    return checkpoint_bytes(context) + state_space_served_bytes(context);
  const double query = real(share.heads * core_head_dim(context.model()));
  double attention = e * tokens * (hidden + 2 * query + key_value_width(context));
  if (!spec::has_attention(kind)) attention = 0;
  double mlp = 0;
  if (spec::has_dense_mlp(kind)) mlp = e * tokens * (hidden + real((share.gates + 1) * share.ffn));
  if (spec::has_experts(kind)) {
    const ExpertRows rows = count_expert_rows(context);
    const double width = real(expert_width(context));
    const int64_t ffn = divide_up(context.model().moe->ffn_hidden_size, share.expert_tensor);
    mlp = e * (2 * real(rows.sent) * width +
               real(rows.computed) * (width + real((share.gates + 1) * ffn)));
  }
  return checkpoint_bytes(context) + std::max(attention, mlp);
}

double checkpoint_bytes(const LayerContext& context) {
  return context.share.residual * real(context.share.sharded_tokens * context.share.hidden);
}

double chunk_activation_bytes(const LayerContext& context, const ChunkLayers& chunk) {
  const LayerCounts again = recomputed_layers(context.job, chunk);
  double bytes = checkpoint_bytes(context) * real(again.total());
  for (const LayerKind kind : all_layer_kinds)
    if (chunk.count[kind] > again[kind])
      bytes += real(chunk.count[kind] - again[kind]) * layer_activation_bytes(context, kind);
  if (chunk.predictions > 0)
    bytes += real(chunk.predictions) * prediction_activation_bytes(context);
  if (chunk.has_embedding) bytes += dropout_mask(context);
  if (chunk.has_head) bytes += branch_edge_bytes(context, {}) - dropout_mask(context);
  return bytes;
}

double offloaded_layer_bytes(const LayerContext& context, LayerKind kind) {
  if (context.plan().activation_offload == 0) return 0;
  const bool again = context.plan().recompute == spec::Recompute::full;
  return context.plan().activation_offload *
         (again ? checkpoint_bytes(context) : layer_activation_bytes(context, kind));
}

double chunk_offloaded_bytes(const LayerContext& context, const ChunkLayers& chunk) {
  double bytes = 0;
  for (const LayerKind kind : all_layer_kinds)
    if (chunk.count[kind] > 0)
      bytes += real(chunk.count[kind]) * offloaded_layer_bytes(context, kind);
  return bytes;
}

double recomputed_layer_bytes(const LayerContext& context, const ChunkLayers& chunk) {
  const LayerCounts again = recomputed_layers(context.job, chunk);
  double bytes = 0;
  for (const LayerKind kind : all_layer_kinds) {
    if (again[kind] > 0) bytes = std::max(bytes, layer_activation_bytes(context, kind));
    if (chunk.count[kind] > 0) bytes = std::max(bytes, discarded_bytes(context, kind));
  }
  return bytes;
}

double backward_working_bytes(const LayerContext& context, LayerKind kind) {
  const RankShare& share = context.share;
  const double trunk = 2 * checkpoint_bytes(context);
  if (spec::has_experts(kind)) {
    const ExpertRows rows = count_expert_rows(context);
    const int64_t ffn = divide_up(context.model().moe->ffn_hidden_size, share.expert_tensor);
    // Gradients of rows on their way back to the ranks that own the tokens.
    const int64_t travelling = share.expert > 1 ? rows.sent : 0;
    return trunk +
           share.element * real(rows.computed * (share.gates * ffn + expert_width(context)) +
                                travelling * expert_width(context));
  }
  if (spec::has_dense_mlp(kind))
    return trunk + share.element * real(share.tokens * share.gates * share.ffn);
  const double width =
      kind == LayerKind::state_space
          ? 2 * real(state_space_share(context).inner())
          : 2 * real(share.heads * core_head_dim(context.model())) + key_value_width(context);
  return trunk + share.element * real(share.tokens) * width;
}

double deferred_bytes(const LayerContext& context, const ChunkLayers& chunk) {
  const RankShare& share = context.share;
  const double trunk = checkpoint_bytes(context), width = real(share.hidden);
  const double gradient = share.element * real(share.tokens) * width;
  double norms = 0;
  int64_t mixers = 0, mlp = 0, moe = 0;
  for (const LayerKind kind : all_layer_kinds) {
    const int64_t count = chunk.count[kind];
    norms += 2 * transformer_share(kind) * real(count);
    mlp += spec::has_dense_mlp(kind) ? count : 0;
    moe += spec::has_experts(kind) ? count : 0;
    mixers += spec::has_attention(kind) || kind == LayerKind::state_space ? count : 0;
  }
  // Gradients of outputs come, as the weight gradients need them; the trunk before the norms goes,
  // as the input half was its last reader.
  double bytes = real(mixers + mlp) * gradient - norms * trunk;
  if (moe > 0) {
    const ExpertRows rows = count_expert_rows(context);
    const bool inputs_only = context.stack().fused_moe_dispatch && share.expert > 1;
    const int64_t released = inputs_only ? 0 : rows.sent;  // as they came back
    bytes +=
        real(moe) * share.element * real(rows.computed - released) * real(expert_width(context));
  }
  const LayerCounts again = recomputed_layers(context.job, chunk);
  for (const LayerKind kind : all_layer_kinds) {
    if (again[kind] > 0)
      bytes += real(again[kind]) * (layer_activation_bytes(context, kind) - trunk);
    if (chunk.count[kind] > 0) bytes += real(chunk.count[kind]) * discarded_bytes(context, kind);
  }
  if (chunk.has_embedding && !share.frozen) bytes += gradient;
  if (chunk.has_head) bytes -= trunk;
  return bytes;
}

double layer_cache_bytes(const LayerContext& context, LayerKind kind, int64_t sequences) {
  if (kind == LayerKind::state_space) return state_space_cache_bytes(context, sequences);
  if (!spec::has_attention(kind)) return 0;
  const RankShare& share = context.share;
  int64_t kept = share.key_length;
  // What lies before the window is never read again.
  if (spec::is_windowed(kind)) kept = std::min(kept, context.model().sliding_window->size);
  const double tokens = real(sequences * divide_up(kept, share.context));
  if (!context.model().latent_attention) return share.element * tokens * key_value_width(context);
  const spec::LatentAttention& latent = *context.model().latent_attention;
  return share.element * tokens *
         real(latent.key_value_rank + latent.rope_head_dim + latent.indexer_head_dim);
}

}  // namespace triplepoint::workload
