// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "triplepoint/spec/op.h"

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// Ops of one rank that repeat: "dense layer" x 24, "embedding" x 1. Order is execution order.
struct OpGroup {
  std::string_view name;  // static text: "embedding", "head", "prediction", or name_of_layer()
  int64_t repeat = 1;
  bool is_layer = false;  // counts for the host's time per layer
  std::vector<spec::Op> ops;
  double host_share = 1;  // of that time: a layer of attention alone, or MLP alone, is half of one
};

/// What one rank of a stage does for one microbatch on one model chunk, pass by pass.
/// Recompute stands apart (it runs right before the backward pass of its layers).
struct ChunkWork {
  int64_t first_layer = 0, num_layers = 0;
  bool has_embedding = false, has_head = false;
  std::vector<OpGroup> forward, recompute, backward_input, backward_weight;
};

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

  const PartWork& layer(LayerKind kind) const { return layers[as_size(kind)]; }
};

ModelParts make_parts(const LayerContext&);
/// The passes of one kind of layer alone.
Passes make_passes(const LayerContext&, LayerKind);

/// Work of one chunk for one microbatch. Recompute: none; selective: the plan's modules of every
/// layer; full: the first layers of the chunk as `recomputed_layers` counts them.
ChunkWork make_chunk(const LayerContext&, const ModelParts&, const ChunkLayers&);

}  // namespace triplepoint::workload
