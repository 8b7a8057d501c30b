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
///
/// Bytes that memory-bound kernels read and write per parameter of a sharded layer, by
/// stack.sharded_tensors (e: of compute; s: gradient_sync_bytes):
///
///   in_place       gather 0      reduction 2 e (scaled)
///   flat           gather 0      reduction 2 e (joined) + e + s (cast, where s > e) + 2 s (scaled)
///   per_parameter  gather 2 e    reduction e + s (cast while copied; the collective averages);
///                  and 2 e of the shard, into the collective's buffer
///
/// Sources: Rajbhandari et al. 2020 (ZeRO), section 7; Zhao et al. 2023 (PyTorch FSDP), section 4;
/// PyTorch, torch/distributed/fsdp/_runtime_utils.py (flat) and
/// _fully_shard/_fsdp_collectives.py (all_gather_copy_out, reduce_scatter_copy_in).
///
/// `element`: bytes of a parameter as it is gathered.
void open_sharded_part(const LayerContext&, const RankParameters&, double element, Passes&);
void close_sharded_part(const LayerContext&, const RankParameters&, double element, Passes&);

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

/// Bytes of a stage's parts, whole, as FSDP gathers them for compute.
struct GatheredParts {
  double layer = 0, all_layers = 0, embedding = 0, head = 0;  // layer: the largest
  int64_t layers = 0;
  bool tied = false;  // one matrix is embedding and head

  double root() const { return embedding + (tied ? 0 : head); }
};

GatheredParts gathered_parts(const LayerContext&, const std::vector<ChunkLayers>&);

/// While the head's backward pass runs: the root unit (embedding and head, which stays gathered
/// between its passes), one layer (all of them without resharding), and the head's gradient.
double gathered_at_head(const LayerContext&, const GatheredParts&);

/// While a layer's backward pass runs (of a pipeline: everything whole, and the sum of gradients)
/// and `done` layers have had theirs: the layer, those gathered ahead and the root unit; its
/// gradient; and the gradient before it (the head's when `done` is 0), which travels in the bytes
/// it is reduced in (gradient_sync_bytes) to this rank's shard of it. Source: PyTorch,
/// torch/distributed/fsdp/_fully_shard: one reduce-scatter is in flight (reduce_scatter_state),
/// gradients of 16 bits are copied to floats before (foreach_reduce).
double gathered_at_layer(const LayerContext&, const GatheredParts&, int64_t done);

/// What the allocator keeps beyond the peak because each stream has its own pool: FSDP2
/// gathers the root unit and then the first layer in a stream that needs no more than the layers
/// gathered ahead at the peak. It goes back to the driver where memory ends.
/// Source: PyTorch, torch/distributed/fsdp/_fully_shard: all_gather_copy_in_stream.
double stream_pool_bytes(const LayerContext&, const GatheredParts&);

}  // namespace triplepoint::workload
