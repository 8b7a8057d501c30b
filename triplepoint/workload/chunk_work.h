// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::workload {

/// A part of the model as ops: what a layer (or embedding, or head) does in each pass.
struct PartWork {
  Passes passes;
  std::vector<spec::Op>
      replayed;  // by full recompute: the forward pass, gathers only if they repeat
  std::vector<spec::Op> core_only;  // by selective recompute
};

/// The parts of a job's model, each made once; chunks are put together from them.
struct ModelParts {
  PartWork dense_layer, moe_layer, embedding, head;
};

ModelParts make_parts(const LayerContext&);

/// Work of one chunk for one microbatch. Recompute: none; selective: the attention core of every
/// layer; full: the first layers of the chunk as `recomputed_layers` counts them.
ChunkWork make_chunk(const LayerContext&, const ModelParts&, const ChunkLayers&);

}  // namespace triplepoint::workload
