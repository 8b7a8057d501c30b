// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/op.h"

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// Once per step and stage, after (or, where `overlap` says so, behind) the microbatches.
struct StepWork {
  std::vector<spec::Op>
      gradient_sync;  // DP reductions (dense and expert groups), embedding all-reduce
  std::vector<spec::Op> gradient_norm;  // local norm and the all-reduce over the model group
  std::vector<spec::Op> optimizer;
  std::vector<spec::Op> parameter_sync;  // ZeRO-1/2 all-gather
};

/// Data parallelism by ZeRO stage. P: parameters of the rank; the array is gathered in the compute
/// precision (2 P bytes for bf16) and reduced in optimizer.gradient_sync_bytes.
///
///   none        all-reduce of gradients, once a step                     2 P sent and received
///   optimizer   reduce-scatter of gradients, all-gather of parameters    2 P
///   gradients   the same; a reduce-scatter per microbatch where the stack keeps only the shard
///   parameters  (FSDP) per layer and microbatch: all-gather forward, again backward if resharded,
///               a third time if recomputed and the stack gathers for that; reduce-scatter  3 P
///
/// Hybrid sharding: the above inside `shard`, and an all-reduce of the shard over `replica`.
/// Experts travel over `expert_data`. LoRA gathers all parameters and reduces the adapters' only.
/// Sources: Rajbhandari et al. 2020 (ZeRO), section 7; Zhao et al. 2023 (PyTorch FSDP).
void open_sharded_part(const LayerContext&, const RankParameters&, Passes&);   // before its ops
void close_sharded_part(const LayerContext&, const RankParameters&, Passes&);  // after them

/// Is the op part of gathering parameters?
bool gathers_parameters(const spec::Op&);

/// ZeRO-2 with accumulation into shards: the reduction of one microbatch, at the end of its
/// backward pass. Empty otherwise.
std::vector<spec::Op> reduce_each_microbatch(const LayerContext&, const RankParameters& of_chunk);

/// What a stage does once a step. `of_stage`: sum over its chunks.
///
/// Optimizer bytes per parameter: gradient read and zeroed, master and moments read and written,
/// weight written (read as well where the master is kept as a 16-bit remainder or not at all).
/// The norm's all-reduces carry 4 bytes; that over `model` is where early stages wait for the last.
StepWork build_step_work(const LayerContext&, const RankParameters& of_stage,
                         bool holds_tied_embedding);

}  // namespace triplepoint::workload
