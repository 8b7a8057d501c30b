// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/model.h"

#include <algorithm>
#include <string_view>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {
namespace {

/// Weights (and bias) of one linear layer.
double linear(double in, double out, bool bias) {
  return in * out + (bias ? out : 0);
}

double norm(const Model& model, double width) {
  return model.normalization == Normalization::layer_norm ? 2 * width : width;
}

double feed_forward(const Model& model, int64_t width, int64_t ffn_hidden_size) {
  const double hidden = as_real(width), ffn = as_real(ffn_hidden_size);
  const double up = model.activation == Activation::swiglu ? 2 * ffn : ffn;
  return linear(hidden, up, model.biases) + linear(ffn, hidden, model.biases);
}

/// Queries, keys and values of every head, and the projection back.
double grouped_attention(const Model& model) {
  const double hidden = as_real(model.hidden_size);
  const double query = as_real(model.num_attention_heads * model.kv_channels);
  const double key_value = 2 * as_real(model.num_query_groups * model.kv_channels);
  return linear(hidden, query + key_value, model.biases) + linear(query, hidden, model.biases);
}

/// DeepSeek-V2, section 2.1: down to a low rank, norm, up again; the rotary key is shared by all
/// heads.
double latent_attention(const Model& model, const LatentAttention& latent) {
  const double hidden = as_real(model.hidden_size), heads = as_real(model.num_attention_heads);
  const double query_rank = as_real(latent.query_rank), rank = as_real(latent.key_value_rank);
  const double rope = as_real(latent.rope_head_dim), value = as_real(latent.value_head_dim);
  const double key = as_real(model.kv_channels);
  const double queries = hidden * query_rank + query_rank * heads * (key + rope);
  const double keys_values = hidden * (rank + rope) + rank * heads * (key + value);
  return queries + keys_values + heads * value * hidden + norm(model, query_rank) +
         norm(model, rank);
}

/// DeepSeek-V3.2, section 2.1: queries of the indexer's heads from their low rank; one key for all
/// of them, with a layer norm, and a weight of each head from the trunk.
double indexer(const Model& model, const LatentAttention& latent) {
  const double heads = as_real(latent.indexer_heads), width = as_real(latent.indexer_head_dim);
  return as_real(latent.query_rank) * heads * width + as_real(model.hidden_size) * (width + heads) +
         2 * width;
}

/// In: gate z, x, B, C and step of every head, in one matrix; the convolution over x, B and C; A, D
/// and the step's bias of every head; the gain of the gated norm; and out again. No biases, but the
/// convolution's.
double state_space(const Model& model, const StateSpace& space) {
  const double hidden = as_real(model.hidden_size), inner = as_real(space.inner_width());
  const double heads = as_real(space.num_heads);
  const double shared = 2 * as_real(space.num_groups * space.state_size);
  const double mixed = inner + shared;
  return hidden * (inner + mixed + heads) + (as_real(space.conv_width) + 1) * mixed + 3 * heads +
         inner + inner * hidden;
}

LayerKind kind_of_letter(char letter) {
  switch (letter) {
    case 'M':
      return LayerKind::state_space;
    case '*':
      return LayerKind::attention;
    case 'E':
      return LayerKind::experts;
    default:
      return LayerKind::mlp;
  }
}

std::vector<LayerKind> kinds_of_pattern(std::string_view pattern) {
  std::vector<LayerKind> kinds(pattern.size());
  std::transform(pattern.begin(), pattern.end(), kinds.begin(), kind_of_letter);
  return kinds;
}

double experts_used_by_one_token(const Model& model, double experts) {
  return experts * as_real(model.moe->router_topk) / as_real(model.moe->num_experts);
}

void add_prediction(const Model& model, ParameterCount& count) {
  const double depths = as_real(model.prediction_depths());
  const PredictionParameters joined = count_prediction_parameters(model);
  count.prediction = depths * (joined.projection + joined.norms);
  count.active_prediction = count.prediction;
  for (const LayerKind kind : kinds_of_prediction(model)) {
    const LayerParameters layer = count_layer_parameters(model, kind);
    const double shared = layer.without_experts();
    count.prediction += depths * (shared + layer.experts);
    count.active_prediction += depths * shared;
    if (layer.experts > 0)
      count.active_prediction += depths * experts_used_by_one_token(model, layer.experts);
  }
}

}  // namespace

bool Model::is_moe_layer(int64_t layer) const {
  if (layer_pattern) return has_experts(kind_of_layer(*this, layer));
  return moe && layer >= moe->num_dense_layers && (layer + 1) % moe->layer_period.value_or(1) == 0;
}

bool Model::is_windowed_layer(int64_t layer) const {
  if (!sliding_window) return false;
  return sliding_window->full_every == 0 || (layer + 1) % sliding_window->full_every != 0;
}

LayerKind kind_of_layer(const Model& model, int64_t layer) {
  if (model.layer_pattern) {
    const auto at = static_cast<std::size_t>(layer);
    return kind_of_letter(at < model.layer_pattern->size() ? (*model.layer_pattern)[at] : '-');
  }
  const bool moe = model.is_moe_layer(layer);
  if (model.is_windowed_layer(layer)) return moe ? LayerKind::window_moe : LayerKind::window_dense;
  return moe ? LayerKind::moe : LayerKind::dense;
}

std::vector<LayerKind> kinds_of_prediction(const Model& model) {
  if (!model.multi_token_prediction) return {};
  const auto& pattern = model.multi_token_prediction->layer_pattern;
  if (pattern) return kinds_of_pattern(*pattern);
  return {kind_of_layer(model, model.num_layers - 1)};
}

LayerParameters count_layer_parameters(const Model& model, LayerKind kind) {
  LayerParameters count;
  const double one_norm = norm(model, as_real(model.hidden_size));
  if (kind == LayerKind::state_space) {
    if (model.state_space) count.state_space = state_space(model, *model.state_space);
    count.norms = one_norm;
    return count;
  }
  if (has_attention(kind))
    count.attention = model.latent_attention ? latent_attention(model, *model.latent_attention)
                                             : grouped_attention(model);
  if (has_attention(kind) && model.latent_attention)
    count.latent = indexer(model, *model.latent_attention);
  count.norms = (has_attention(kind) && kind != LayerKind::attention ? 2 : 1) * one_norm;
  if (has_dense_mlp(kind))
    count.mlp = feed_forward(model, model.hidden_size, model.ffn_hidden_size);
  if (!has_experts(kind) || !model.moe) return count;
  const MixtureOfExperts& moe = *model.moe;
  const int64_t width = moe.latent_size.value_or(model.hidden_size);
  count.router = as_real(model.hidden_size * moe.num_experts);
  count.experts = as_real(moe.num_experts) * feed_forward(model, width, moe.ffn_hidden_size);
  if (moe.latent_size) count.latent += 2 * as_real(model.hidden_size * width);
  if (moe.shared_expert_ffn_hidden_size > 0)
    count.shared_expert = feed_forward(model, model.hidden_size, moe.shared_expert_ffn_hidden_size);
  return count;
}

LayerParameters count_layer_parameters(const Model& model, int64_t layer) {
  return count_layer_parameters(model, kind_of_layer(model, layer));
}

PredictionParameters count_prediction_parameters(const Model& model) {
  const double hidden = as_real(model.hidden_size);
  return {.projection = 2 * hidden * hidden, .norms = 3 * norm(model, hidden)};
}

ParameterCount count_parameters(const Model& model) {
  const double hidden = as_real(model.hidden_size);
  const double words = as_real(padded_vocabulary(model, 1)) * hidden;
  ParameterCount count;
  count.embedding = words;
  if (model.position_embedding == PositionEmbedding::learned)
    count.embedding += as_real(model.sequence_length) * hidden;
  count.head = model.tied_embeddings ? 0 : words;
  count.final_norm = norm(model, hidden);
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    const LayerParameters parameters = count_layer_parameters(model, layer);
    count.dense_layers += parameters.without_experts();
    count.experts += parameters.experts;
    if (parameters.experts > 0)
      count.active_experts += experts_used_by_one_token(model, parameters.experts);
  }
  if (model.prediction_depths() > 0) add_prediction(model, count);
  return count;
}

int64_t padded_vocabulary(const Model& model, int64_t tensor_parallel_size) {
  const int64_t step = model.vocabulary_divisible_by * tensor_parallel_size;
  return (model.vocabulary_size + step - 1) / step * step;
}

}  // namespace triplepoint::spec
