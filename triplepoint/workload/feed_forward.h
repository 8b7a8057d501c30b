// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// The MLP of a dense layer: norm, up, activation, down, residual, with tensor-parallel
/// communication. SwiGLU computes gate and up in one GEMM.
void add_dense_mlp(const LayerContext&, Passes&);

/// Up, activation and down alone, of `ffn` hidden units on this rank.
void add_mlp_core(const LayerContext&, int64_t ffn, Passes&);

/// Rows that one rank handles in a layer of experts.
struct ExpertRows {
  int64_t routed_tokens = 0;  // tokens this rank's router looks at
  int64_t sent = 0;           // rows in the dispatch buffer of this rank: tokens x top-k x capacity
  int64_t computed = 0;       // rows its experts multiply (gathered over expert TP)
  int64_t local_experts = 1;
  int64_t busy_experts = 1;  // of them, those that have a row: few tokens leave weights unread
};
/// top-k rows a token; with padding every expert gets exactly capacity_factor times its fair share,
/// without padding at most that; dropless the busiest rank gets `load_imbalance` times the mean.
/// All ranks do the work of the busiest one, because the combine waits for it.
///
/// In inference a microbatch of T tokens of the expert group touches E (1 - (1 - k/E)^T) of E
/// experts, even routing assumed; a step of training touches all of them. Padded experts are
/// multiplied whether they have rows or not.
ExpertRows count_expert_rows(const LayerContext&);

/// Width of the rows that travel to experts: the trunk's, or narrower (latent experts).
int64_t expert_width(const LayerContext&);

/// Router, permutation, dispatch, experts, combine, and the shared expert where there is one.
///
/// Dispatch and combine are all-to-alls over the expert group: payload = rows sent x hidden x
/// element bytes, the buffer of one rank (nccl-tests' S), its own part included. Where rows are not
/// padded, ranks gather each other's counts of rows per expert before. With expert TP
/// under sequence parallelism rows are then gathered over the expert-tensor group, and reduced
/// and scattered before the combine; without sequence parallelism every TP rank routes all tokens
/// and the experts' outputs are reduced over the group.
/// Source: Megatron-LM, megatron/core/transformer/moe (all-to-all dispatcher).
void add_moe_mlp(const LayerContext&, Passes&);

}  // namespace triplepoint::workload
