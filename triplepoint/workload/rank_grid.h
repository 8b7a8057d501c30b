// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::workload {

/// Where a rank stands in the layout. `expert` is its index inside the expert-parallel group,
/// `data` counts the whole data-parallel dimension (expert-parallel ranks are data ranks in dense
/// layers).
struct RankCoordinates {
  int64_t tensor = 0, context = 0, expert = 0, data = 0, pipeline = 0;
  friend bool operator==(const RankCoordinates&, const RankCoordinates&) = default;
};

/// A communication group as the network sees it. All groups of one kind have the same shape in a
/// regular layout; where they differ, this is the widest one.
struct GroupShape {
  int64_t ranks = 1;            // members
  int64_t nodes = 1;            // nodes the members live on
  int64_t ranks_per_node = 1;   // members on one of them
  int64_t groups_per_node = 1;  // groups of this kind that share one node's NICs at the same time
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

/// Megatron's rank order: which ranks form which group, and on which device each rank sits.
///
/// rank_order tp_cp_ep_dp_pp: tensor varies fastest, pipeline slowest. tp_pp_dp: data slowest.
/// Members of each group, all at one place in the other dimensions:
///   tensor, context, pipeline   their own dimension
///   data                        DP x CP: ranks with equal dense parameters (Megatron's "dp-cp")
///   expert_tensor, expert,      the ranks of a stage, counted tensor, context, data, and dealt out
///     expert_data               anew as ETP (fastest), EP, expert DP
///   model                       TP x PP;   embedding: first and last stage
///   shard, replica              `data` cut into blocks of plan.sharding_group_size, and across
///   them
/// With tp_pp_dp and EP > 1 Megatron allows only layouts in which its two grids agree; this one
/// always keeps an expert group inside one stage.
/// Device of rank r: node n = plan.node_order[r / gpus_per_node], and inside of it
/// plan.device_order[r % gpus_per_node], of n's own part where the order is told node by node.
/// Source: Megatron-LM, megatron/core/parallel_state.py (RankGenerator).
class RankGrid {
 public:
  explicit RankGrid(const spec::Job& job);

  int64_t world_size() const { return world_; }
  RankCoordinates coordinates(int64_t rank) const;
  int64_t rank_at(const RankCoordinates&) const;
  std::vector<int64_t> members(spec::GroupKind kind, int64_t rank) const;  // in group order
  const GroupShape& shape(spec::GroupKind kind) const { return shapes_[static_cast<size_t>(kind)]; }
  int64_t device_of(int64_t rank) const;  // global device index: node * gpus_per_node + local
  int64_t node_of(int64_t rank) const { return device_of(rank) / gpus_per_node_; }

 private:
  struct Place {
    int64_t slot;  // among the ranks of a stage: tensor fastest, then context, then data
    int64_t stage;
  };
  Place place_of(int64_t rank) const;
  int64_t rank_of(Place place) const;
  int64_t inner_stride() const;
  struct Line {
    int64_t first, step, count;
  };
  Line line_of(spec::GroupKind kind, int64_t slot) const;     // slots of a group in one stage
  Line stages_of(spec::GroupKind kind, int64_t stage) const;  // stages a group runs through
  std::vector<int64_t> members(spec::GroupKind kind, Place place) const;
  int64_t leader_of(spec::GroupKind kind, Place place) const;
  GroupShape shape_around(spec::GroupKind kind, Place place) const;
  GroupShape widest_shape(spec::GroupKind kind, const std::vector<Place>& first_node) const;

  int64_t world_ = 1, gpus_per_node_ = 8;
  int64_t tensor_ = 1, context_ = 1, expert_ = 1, data_ = 1, pipeline_ = 1, expert_tensor_ = 1,
          shard_ = 1;
  spec::RankOrder order_ = spec::RankOrder::tp_cp_ep_dp_pp;
  std::vector<int64_t> device_order_, node_order_;
  std::array<GroupShape, spec::group_kind_count> shapes_;  // estimates ask for them op by op
};

/// Ranks that share one copy of sharded states: the hybrid sharding group, or DP x CP.
int64_t shard_group_size(const spec::Job& job);

/// One rank's share of a microbatch and of a layer: what every maker of ops reads.
///
/// Under sequence parallelism norms, dropout and residuals see `sharded_tokens`, everything between
/// an all-gather and a reduce-scatter sees `tokens`. Without it the two are equal.
/// Uneven divisions round up: the rank with most work sets the pace.
struct RankShare {
  int64_t tensor = 1, context = 1, expert = 1, expert_tensor = 1, data = 1, expert_data = 1;
  int64_t shard = 1;  // ranks that share one copy of sharded dense states

  int64_t sequences = 1;       // of one microbatch
  int64_t query_length = 0;    // of one sequence on this rank: sequence / CP; 1 when decoding
  int64_t key_length = 0;      // whole row
  double squares = 0;          // sum of the squared lengths of what attends together in a row
  int64_t tokens = 0;          // sequences * query_length
  int64_t sharded_tokens = 0;  // tokens / TP under sequence parallelism
  bool sequence_parallel = false;

  int64_t hidden = 0;
  int64_t heads = 0, query_groups = 0, head_dim = 0;  // of this rank
  int64_t vocabulary = 0;                             // of this rank
  int64_t ffn = 0;                                    // dense MLP, of this rank
  int64_t gates = 1;  // 2 with SwiGLU: up and gate product in one GEMM

  double element = 2;   // bytes of an activation
  double residual = 2;  // bytes of an element of the trunk, between the layers
  bool training = true;
  bool frozen = false;  // LoRA: the base has no weight gradient
};

RankShare share_of_rank(const spec::Job& job);

/// The same of the microbatch with the longest rows, which memory has to hold.
RankShare largest_share_of_rank(const spec::Job& job);

/// ceil(a / b) for positive counts.
constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

constexpr double real(int64_t count) {
  return as_real(count);
}

}  // namespace triplepoint::workload
