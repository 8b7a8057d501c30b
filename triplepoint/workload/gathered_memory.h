// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

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
