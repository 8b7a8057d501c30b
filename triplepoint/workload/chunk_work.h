// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::workload {

/// A part of the model as ops: what a layer (or embedding, or head) does in each pass.
struct PartWork {
  Passes passes;
  std::vector<spec::Op>
      recomputed;  // by full recompute: the forward pass, gathers only if they repeat
};

/// The parts of a job's model, each made once; chunks are put together from them.
struct ModelParts {
  std::array<PartWork, spec::layer_kind_count> layers;  // of kinds that the model has
  PartWork embedding, prediction, head;

  const PartWork& layer(LayerKind kind) const { return layers[static_cast<size_t>(kind)]; }
};

ModelParts make_parts(const LayerContext&);

/// Work of one chunk for one microbatch. Recompute: none; selective: the plan's modules of every
/// layer; full: the first layers of the chunk as `recomputed_layers` counts them.
ChunkWork make_chunk(const LayerContext&, const ModelParts&, const ChunkLayers&);

}  // namespace triplepoint::workload
