// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {

enum class Activation { gelu, swiglu, squared_relu };
enum class Normalization { layer_norm, rms_norm };
enum class PositionEmbedding { learned, rope, none };

/// Mixture of experts. Counts are per MoE layer.
struct MixtureOfExperts {
  int64_t num_experts = 8;
  int64_t router_topk = 2;
  int64_t ffn_hidden_size = 0;                // of one expert
  std::optional<double> capacity_factor;      // absent: dropless
  bool pad_to_capacity = false;               // every expert gets exactly its capacity
  double load_imbalance = 1.0;                // busiest expert rank over the mean, >= 1
  bool grouped_gemm = true;                   // false: one GEMM launch per local expert
  int64_t shared_expert_ffn_hidden_size = 0;  // 0: no shared expert
  int64_t num_dense_layers = 0;               // leading layers with a dense MLP (DeepSeek)
  friend bool operator==(const MixtureOfExperts&, const MixtureOfExperts&) = default;
};

/// Multi-head latent attention (DeepSeek): low-rank queries and keys/values.
struct LatentAttention {
  int64_t query_rank = 0, key_value_rank = 0;
  int64_t rope_head_dim = 0, value_head_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A decoder-only transformer. Names follow Megatron-Core, spelled out.
struct Model {
  std::string name;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t ffn_hidden_size = 0;
  int64_t num_attention_heads = 0;
  int64_t num_query_groups = 0;  // = num_attention_heads without GQA
  int64_t kv_channels = 0;       // head dimension
  int64_t sequence_length = 0;
  int64_t vocabulary_size = 0;
  int64_t vocabulary_divisible_by = 128;
  Activation activation = Activation::gelu;
  Normalization normalization = Normalization::layer_norm;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  bool tied_embeddings = false;  // LM head shares the embedding weights
  bool biases = false;           // linear layers carry a bias
  double dropout = 0;
  std::optional<MixtureOfExperts> moe;
  std::optional<LatentAttention> latent_attention;
  std::optional<double> published_parameters;         // total
  std::optional<double> published_active_parameters;  // used by one token
  friend bool operator==(const Model&, const Model&) = default;

  bool is_moe_layer(int64_t layer) const { return moe && layer >= moe->num_dense_layers; }
};

/// Parameters by where they live; sums over the model without any sharding.
struct ParameterCount {
  double embedding = 0, head = 0, dense_layers = 0, experts = 0, final_norm = 0;
  double active_experts = 0;  // of `experts`, used by one token
  double total() const { return embedding + head + dense_layers + experts + final_norm; }
  double active() const { return embedding + head + dense_layers + active_experts + final_norm; }
};
ParameterCount count_parameters(const Model&);

/// Parameters of one layer: attention, norms and dense MLP or router; and of its routed experts.
struct LayerParameters {
  double attention = 0, mlp = 0, norms = 0, router = 0, shared_expert = 0, experts = 0;
  double without_experts() const { return attention + mlp + norms + router + shared_expert; }
};
LayerParameters count_layer_parameters(const Model&, int64_t layer);

/// Smallest multiple of `vocabulary_divisible_by` x tensor_parallel_size that holds the vocabulary.
int64_t padded_vocabulary(const Model&, int64_t tensor_parallel_size);

}  // namespace triplepoint::spec
