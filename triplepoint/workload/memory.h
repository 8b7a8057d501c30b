// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::workload {

/// Bytes on one GPU of one pipeline stage, at the moment of the peak.
struct StageMemory {
  Bytes weights, gradients, optimizer;
  Bytes activations;  // of all microbatches in flight, plus the layer being recomputed; inference:
                      // the cache of keys and values, plus the layer at work
  Bytes logits;       // last stage
  Bytes buffers;      // FSDP gathers, all-to-all, gradient buckets
  Bytes reserve;      // CUDA context, NCCL, framework; and fragmentation of the rest
  Bytes step;         // by tensors while the optimizer steps, not part of the sum: what lies there
                      // for good and gathered copies
  Bytes reserved;     // of the driver by the allocator, not part of the sum
  Bytes total() const;
};

struct MemoryVerdict {
  std::vector<StageMemory> stages;
  Bytes limit;  // what the driver reports
  int64_t worst_stage = 0;
  bool fits() const { return stages[as_size(worst_stage)].total() <= limit; }
};

/// Peak memory per stage; formulas in docs/models/memory.md.
MemoryVerdict estimate_memory(const spec::Job&);
MemoryVerdict estimate_memory(const spec::Job&, const std::vector<StageProgram>& programs);

/// Bytes on one GPU of one stage: `chunks` are the stage's, in order.
///
/// The peak of activations is the highest sum along `program`, so that the beginning of a program
/// gives a lower bound; of GPipe and 1F1B (one chunk) everything up to the first backward gives the
/// peak itself.
StageMemory stage_memory(const LayerContext&, const std::vector<ChunkLayers>& chunks,
                         const StageProgram& program);

}  // namespace triplepoint::workload
