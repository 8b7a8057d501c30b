// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/model.h"

namespace triplepoint::spec {
namespace {

double real(int64_t count) {
  return static_cast<double>(count);
}

/// Weights (and bias) of one linear layer.
double linear(double in, double out, bool bias) {
  return in * out + (bias ? out : 0);
}

double norm(const Model& model, double width) {
  return model.normalization == Normalization::layer_norm ? 2 * width : width;
}

double feed_forward(const Model& model, int64_t ffn_hidden_size) {
  const double hidden = real(model.hidden_size), ffn = real(ffn_hidden_size);
  const double up = model.activation == Activation::swiglu ? 2 * ffn : ffn;
  return linear(hidden, up, model.biases) + linear(ffn, hidden, model.biases);
}

/// Queries, keys and values of every head, and the projection back.
double grouped_attention(const Model& model) {
  const double hidden = real(model.hidden_size);
  const double query = real(model.num_attention_heads * model.kv_channels);
  const double key_value = 2 * real(model.num_query_groups * model.kv_channels);
  return linear(hidden, query + key_value, model.biases) + linear(query, hidden, model.biases);
}

/// DeepSeek-V2, section 2.1: down to a low rank, norm, up again; the rotary key is shared by all
/// heads.
double latent_attention(const Model& model, const LatentAttention& latent) {
  const double hidden = real(model.hidden_size), heads = real(model.num_attention_heads);
  const double query_rank = real(latent.query_rank), rank = real(latent.key_value_rank);
  const double rope = real(latent.rope_head_dim), value = real(latent.value_head_dim);
  const double key = real(model.kv_channels);
  const double queries = hidden * query_rank + query_rank * heads * (key + rope);
  const double keys_values = hidden * (rank + rope) + rank * heads * (key + value);
  return queries + keys_values + heads * value * hidden + norm(model, query_rank) +
         norm(model, rank);
}

double experts_used_by_one_token(const Model& model, double experts) {
  return experts * real(model.moe->router_topk) / real(model.moe->num_experts);
}

}  // namespace

LayerParameters count_layer_parameters(const Model& model, int64_t layer) {
  LayerParameters count;
  count.attention = model.latent_attention ? latent_attention(model, *model.latent_attention)
                                           : grouped_attention(model);
  count.norms = 2 * norm(model, real(model.hidden_size));
  if (!model.is_moe_layer(layer)) {
    count.mlp = feed_forward(model, model.ffn_hidden_size);
    return count;
  }
  count.router = real(model.hidden_size * model.moe->num_experts);
  count.experts = real(model.moe->num_experts) * feed_forward(model, model.moe->ffn_hidden_size);
  if (model.moe->shared_expert_ffn_hidden_size > 0)
    count.shared_expert = feed_forward(model, model.moe->shared_expert_ffn_hidden_size);
  return count;
}

ParameterCount count_parameters(const Model& model) {
  const double hidden = real(model.hidden_size);
  const double words = real(padded_vocabulary(model, 1)) * hidden;
  ParameterCount count;
  count.embedding = words;
  if (model.position_embedding == PositionEmbedding::learned)
    count.embedding += real(model.sequence_length) * hidden;
  count.head = model.tied_embeddings ? 0 : words;
  count.final_norm = norm(model, hidden);
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    const LayerParameters parameters = count_layer_parameters(model, layer);
    count.dense_layers += parameters.without_experts();
    count.experts += parameters.experts;
    if (parameters.experts > 0)
      count.active_experts += experts_used_by_one_token(model, parameters.experts);
  }
  return count;
}

int64_t padded_vocabulary(const Model& model, int64_t tensor_parallel_size) {
  const int64_t step = model.vocabulary_divisible_by * tensor_parallel_size;
  return (model.vocabulary_size + step - 1) / step * step;
}

}  // namespace triplepoint::spec
