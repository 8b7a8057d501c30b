// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::workload {

/// Bytes on one GPU of one stage: `chunks` are the stage's, in order.
///
/// The peak of activations is the highest sum along `program`, so that the beginning of a program
/// gives a lower bound; of GPipe and 1F1B (one chunk) everything up to the first backward gives the
/// peak itself.
StageMemory stage_memory(const LayerContext&, const std::vector<ChunkLayers>& chunks,
                         const StageProgram& program);

}  // namespace triplepoint::workload
