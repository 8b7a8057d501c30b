// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::workload {

/// Bytes beyond states (weights, gradients, optimizer) at one moment of a training step.
struct Moment {
  double activations = 0, logits = 0, buffers = 0;
  double total() const { return activations + logits + buffers; }
};

/// The fullest moment of a stage's step. All microbatches in flight are there and the first
/// backward pass begins; what comes one after the other is not added up:
///
///   loss and head    logits (Stack::loss_bytes each), the head's gradient
///   last layer       the layer that recompute repeats, gradients of what its widest product
///                    made; under FSDP its parameters, whole, and its gradient
///   the layer before FSDP: two layers' gradients, and the last layer's activations are gone
///   embedding        the first chunk's activations are gone, its gradient comes (no FSDP)
///
/// With zero-bubble schedules layers that were recomputed stay until their weight gradients.
Moment find_training_peak(const LayerContext&, const std::vector<ChunkLayers>& chunks,
                          const StageProgram& program);

/// What PyTorch's allocator reserves beyond a peak at the loss, since free blocks serve none of the
/// loss's tensors: those of a layer's forward pass, and, where it is written op by op, the 16-bit
/// logits, whose block is too small for floats.
double reserved_beside_loss(const LayerContext&, const std::vector<ChunkLayers>& chunks);

}  // namespace triplepoint::workload
