// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::workload {

using spec::LayerKind;

inline constexpr std::array<LayerKind, spec::layer_kind_count> all_layer_kinds = {
    LayerKind::dense,       LayerKind::moe,       LayerKind::window_dense, LayerKind::window_moe,
    LayerKind::state_space, LayerKind::attention, LayerKind::mlp,          LayerKind::experts};

/// "layer", "moe_layer", "state_space_layer": what a group of its ops is called.
std::string_view name_of_layer(LayerKind);

/// Of a transformer layer: half where each part is a layer.
constexpr double transformer_share(LayerKind kind) {
  return kind >= LayerKind::state_space ? 0.5 : 1;
}

/// Layers by what they are made of.
struct LayerCounts {
  std::array<int64_t, spec::layer_kind_count> of_kind{};

  int64_t& operator[](LayerKind kind) { return of_kind[as_size(kind)]; }
  int64_t operator[](LayerKind kind) const { return of_kind[as_size(kind)]; }
  int64_t total() const { return std::accumulate(of_kind.begin(), of_kind.end(), int64_t{0}); }
  friend bool operator==(const LayerCounts&, const LayerCounts&) = default;
};

/// What one pipeline stage holds of the model in one chunk.
struct ChunkLayers {
  int64_t first_layer = 0;
  LayerCounts count = {};
  int64_t predictions = 0;  // depths of multi-token prediction, before the head
  bool has_embedding = false, has_head = false;

  int64_t layers() const { return count.total(); }
  /// Equal work: the layers' numbers do not matter.
  bool same_work(const ChunkLayers& other) const {
    return count == other.count && predictions == other.predictions &&
           has_embedding == other.has_embedding && has_head == other.has_head;
  }
};

/// [stage][chunk]. Chunk c of stage s is the (c PP + s)-th part of the model, as in Megatron;
/// plan.layers_per_stage counts PP (or PP x VPP) parts in that order. Even parts otherwise; a rest
/// goes to the last parts.
std::vector<std::vector<ChunkLayers>> lay_out_layers(const spec::Job& job);

/// The same without stages.
ChunkLayers whole_model(const spec::Job& job);

/// Layers of the chunk that full recompute repeats: all, or the first plan.recompute_layers.
LayerCounts recomputed_layers(const spec::Job& job, const ChunkLayers& chunk);

/// Parameters on one rank, told apart by the group that holds copies of them.
struct RankParameters {
  double dense = 0;    // copies in the `data` group
  double experts = 0;  // copies in the `expert_data` group
  double unsplit = 0;  // of `dense`, the same on every TP rank (norms, router)
  double trained_dense = 0, trained_experts = 0;  // all of them, or LoRA's adapters

  RankParameters& operator+=(const RankParameters& other);
};
RankParameters operator*(double count, RankParameters one);

/// Dense and expert matrices are split over TP (experts: EP x expert TP), norms, router and
/// positions are not. LoRA: rank x (in + out) per adapted matrix, split over TP as NeMo does.
RankParameters layer_parameters(const spec::Job& job, const RankShare& share, LayerKind kind);
RankParameters layer_parameters(const spec::Job& job, const RankShare& share, int64_t layer);
/// One depth of multi-token prediction; embedding and head are shared with the model.
RankParameters prediction_parameters(const spec::Job& job, const RankShare& share);
RankParameters embedding_parameters(const spec::Job& job, const RankShare& share);
RankParameters head_parameters(const spec::Job& job, const RankShare& share);
RankParameters chunk_parameters(const spec::Job& job, const RankShare& share,
                                const ChunkLayers& chunk);

}  // namespace triplepoint::workload
