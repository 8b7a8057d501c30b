// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/workload/rank_share.h"

namespace triplepoint::workload {

/// What one pipeline stage holds of the model in one chunk.
struct ChunkLayers {
  int64_t first_layer = 0;
  int64_t dense = 0, moe = 0;
  bool has_embedding = false, has_head = false;

  int64_t layers() const { return dense + moe; }
  /// Equal work: the layers' numbers do not matter.
  bool same_work(const ChunkLayers& other) const {
    return dense == other.dense && moe == other.moe && has_embedding == other.has_embedding &&
           has_head == other.has_head;
  }
};

/// [stage][chunk]. Chunk c of stage s is the (c PP + s)-th part of the model, as in Megatron;
/// plan.layers_per_stage counts PP (or PP x VPP) parts in that order. Even parts otherwise; a rest
/// goes to the last parts.
std::vector<std::vector<ChunkLayers>> lay_out_layers(const spec::Job& job);

/// Layers of the chunk that full recompute replays: all, or the first plan.recompute_layers.
struct RecomputedLayers {
  int64_t dense = 0, moe = 0;
};
RecomputedLayers recomputed_layers(const spec::Plan& plan, const ChunkLayers& chunk);

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
RankParameters layer_parameters(const spec::Job& job, const RankShare& share, bool moe_layer);
RankParameters embedding_parameters(const spec::Job& job, const RankShare& share);
RankParameters head_parameters(const spec::Job& job, const RankShare& share);
RankParameters chunk_parameters(const spec::Job& job, const RankShare& share,
                                const ChunkLayers& chunk);

}  // namespace triplepoint::workload
