// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::workload {

/// What one GPU of a stage holds whose tensors are allocated one by one.
struct EagerPeaks {
  Bytes weights, gradients, optimizer;  // what lies there for good
  Bytes buffers;                        // kept between layers: gathered inputs
  Bytes allocated;                      // by tensors, at the peak of the passes
  Bytes step;                           // by tensors, at most while the optimizer steps
  Bytes reserved;                       // of the driver, by the caching allocator
};

/// Can the job's step be simulated? Dense transformers in training, without recompute, experts,
/// LoRA or sharded parameters, under a stack that allocates so.
bool has_eager_step(const LayerContext&);

/// Simulates two steps of a stage's program, tensor by tensor, through a CachingAllocator.
///
/// In the order of nanotron's Llama: what every layer keeps for its backward pass and what is there
/// only for a moment; the logits (16 bits), their cast to floats and the softmax; gradients as they
/// are made; the moments, which appear in the first step between blocks that are free; and, under
/// ZeRO, flat copies of the parameters while they are gathered. Where a block is free and too
/// small, the driver is asked for more: fragmentation is what comes out.
///
///   * Microbatches beyond those in flight and three more change nothing and are not simulated.
///   * The gradient of the logits of a microbatch stays until the next one has had its forward
///   pass.
///   * An input of a reduce-scatter belongs to the transfers' stream until the GPU has passed it:
///   their number is the lead of the host (HostLead), at most 48. A stage that receives waits for
///   its GPU.
///   * The first stage's GPU is held in the first step while the other stages warm up.
///
/// Of the beginning of a program (no backward pass yet) one step is simulated: a lower bound.
/// Source: huggingface/nanotron, models/llama.py, parallel/tensor_parallel/functional.py,
/// optim/gradient_accumulator.py, optim/zero.py, trainer.py.
EagerPeaks simulate_eager_step(const LayerContext&, const std::vector<ChunkLayers>& chunks,
                               const StageProgram& program);

}  // namespace triplepoint::workload
