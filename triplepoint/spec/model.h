// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace triplepoint::spec {

enum class Activation { gelu, swiglu, squared_relu };
enum class Normalization { layer_norm, rms_norm };
enum class PositionEmbedding { learned, rope, none };

/// Mixture of experts. Counts are per MoE layer.
struct MixtureOfExperts {
  int64_t num_experts = 8;                // routed ones of a layer
  int64_t router_topk = 2;                // routed experts that a token passes
  int64_t ffn_hidden_size = 0;            // of one expert
  std::optional<double> capacity_factor;  // absent: dropless
  bool pad_to_capacity = false;           // every expert gets exactly its capacity
  double load_imbalance = 1.0;  // busiest expert rank over the mean; balanced 1, natural > 1
  bool grouped_gemm = true;     // false: one GEMM launch per local expert
  int64_t shared_expert_ffn_hidden_size = 0;  // 0: no shared expert
  int64_t num_dense_layers = 0;               // leading layers with a dense MLP (DeepSeek)
  std::optional<int64_t> layer_period;        // every n-th layer has experts (Llama 4: 2)
  std::optional<int64_t> latent_size;         // experts work in this width (Nemotron 3 Super)
  friend bool operator==(const MixtureOfExperts&, const MixtureOfExperts&) = default;
};

/// Multi-head latent attention (DeepSeek): low-rank queries and keys/values.
struct LatentAttention {
  int64_t query_rank = 0,
          key_value_rank = 0;  // widths of the compressed vectors; query_rank 0: queries are not
  int64_t rope_head_dim = 0, value_head_dim = 0;  // of a head: rotary part of its key; its value
  // Sparse attention (DeepSeek-V3.2): small heads score all previous tokens, and attention reads
  // the `indexer_topk` best. 0: all are read.
  int64_t indexer_heads = 0, indexer_head_dim = 0, indexer_topk = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// Attention over a limited number of previous tokens (Mistral, GPT-OSS, Gemma).
struct SlidingWindow {
  int64_t size = 0;        // tokens that a query sees, its own included
  int64_t full_every = 0;  // every n-th layer looks at all tokens; 0: none does
  friend bool operator==(const SlidingWindow&, const SlidingWindow&) = default;
};

/// A state-space layer: Mamba-2, Dao and Gu 2024, arXiv 2405.21060. Its inner width is num_heads x
/// head_dim.
struct StateSpace {
  int64_t state_size = 128;  // numbers that a channel carries on
  int64_t num_heads = 0;     // of the state space, not of attention
  int64_t head_dim = 64;     // channels of a head
  int64_t num_groups = 8;    // heads of a group share what writes to the state and reads it (B, C)
  int64_t conv_width = 4;    // tokens of the causal convolution
  int64_t chunk_size = 128;  // tokens that are multiplied as in attention; states pass between
  int64_t inner_width() const { return num_heads * head_dim; }
  friend bool operator==(const StateSpace&, const StateSpace&) = default;
};

/// Multi-token prediction (DeepSeek-V3, section 2.2): each depth joins the trunk and the next
/// token's embedding, passes its own layer, and the shared head predicts one token further.
struct MultiTokenPrediction {
  int64_t depths = 1;                        // 0: the model has the module, but trains without
  std::optional<std::string> layer_pattern;  // of one depth, where the model has a pattern
  friend bool operator==(const MultiTokenPrediction&, const MultiTokenPrediction&) = default;
};

/// What a layer is made of. A transformer's has attention and a feed-forward part; in a hybrid each
/// part is a layer, with its own norm and residual.
enum class LayerKind { dense, moe, window_dense, window_moe, state_space, attention, mlp, experts };
inline constexpr int layer_kind_count = 8;

/// A decoder-only transformer, or a hybrid of its parts. Names follow Megatron-Core, spelled out.
struct Model {
  std::string name;                 // default: that of the file
  int64_t num_layers = 0;           // all, also those of other kinds
  int64_t hidden_size = 0;          // width of the residual stream
  int64_t ffn_hidden_size = 0;      // width of the dense MLP; of swiglu, of one half
  int64_t num_attention_heads = 0;  // of queries
  int64_t num_query_groups = 0;  // heads of keys and values; default: num_attention_heads (no GQA)
  int64_t kv_channels = 0;       // width of a head; default: hidden_size / num_attention_heads
  int64_t sequence_length = 0;   // tokens, where a job sets no other
  int64_t vocabulary_size = 0;   // tokens, before padding
  int64_t vocabulary_divisible_by = 128;  // padding: to a multiple of this x tensor_parallel_size
  Activation activation = Activation::gelu;  // swiglu: with a gate, a third matrix
  Normalization normalization = Normalization::layer_norm;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  bool tied_embeddings = false;  // LM head shares the embedding weights
  bool biases = false;           // linear layers carry a bias
  double dropout = 0;            // probability
  std::optional<MixtureOfExperts> moe;
  std::optional<LatentAttention> latent_attention;
  std::optional<SlidingWindow> sliding_window;
  // One letter a layer, as Megatron-Core writes it: M state space, * attention, - MLP, E experts.
  std::optional<std::string> layer_pattern;
  std::optional<StateSpace> state_space;
  std::optional<MultiTokenPrediction> multi_token_prediction;
  std::optional<double> published_parameters;         // total
  std::optional<double> published_active_parameters;  // used by one token
  friend bool operator==(const Model&, const Model&) = default;

  bool is_moe_layer(int64_t layer) const;
  bool is_windowed_layer(int64_t layer) const;
  int64_t prediction_depths() const {
    return multi_token_prediction ? multi_token_prediction->depths : 0;
  }
};

LayerKind kind_of_layer(const Model&, int64_t layer);
/// Layers of one depth of multi-token prediction: the pattern's, or one like the last of the model.
std::vector<LayerKind> kinds_of_prediction(const Model&);

constexpr bool is_windowed(LayerKind kind) {
  return kind == LayerKind::window_dense || kind == LayerKind::window_moe;
}
constexpr bool has_experts(LayerKind kind) {
  return kind == LayerKind::moe || kind == LayerKind::window_moe || kind == LayerKind::experts;
}
constexpr bool has_dense_mlp(LayerKind kind) {
  return kind == LayerKind::dense || kind == LayerKind::window_dense || kind == LayerKind::mlp;
}
constexpr bool has_attention(LayerKind kind) {
  return kind != LayerKind::state_space && kind != LayerKind::mlp && kind != LayerKind::experts;
}

/// Parameters by where they live; sums over the model without any sharding.
struct ParameterCount {
  double embedding = 0, head = 0, dense_layers = 0, experts = 0, final_norm = 0;
  double active_experts = 0;  // of `experts`, used by one token
  double prediction = 0;      // multi-token prediction, without the shared embedding and head
  double active_prediction = 0;
  double total() const {
    return embedding + head + dense_layers + experts + final_norm + prediction;
  }
  double active() const {
    return embedding + head + dense_layers + active_experts + final_norm + active_prediction;
  }
};
ParameterCount count_parameters(const Model&);

/// Parameters of one layer: attention, norms and dense MLP or router; and of its routed experts.
struct LayerParameters {
  double attention = 0, mlp = 0, norms = 0, router = 0, shared_expert = 0, experts = 0;
  double state_space = 0;
  double latent = 0;  // into the experts' width and back; the indexer; not split by TP
  double without_experts() const {
    return attention + mlp + norms + router + shared_expert + state_space + latent;
  }
};
LayerParameters count_layer_parameters(const Model&, LayerKind);
LayerParameters count_layer_parameters(const Model&, int64_t layer);

/// What one depth of multi-token prediction has beside its layers: the two halves joined, and
/// norms.
struct PredictionParameters {
  double projection = 0, norms = 0;
};
PredictionParameters count_prediction_parameters(const Model&);

/// Smallest multiple of `vocabulary_divisible_by` x tensor_parallel_size that holds the vocabulary.
int64_t padded_vocabulary(const Model&, int64_t tensor_parallel_size);

}  // namespace triplepoint::spec
