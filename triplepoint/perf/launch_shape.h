// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::perf {

/// Thread blocks and warps of an op's kernels, all launches together, as a profiler tells them of
/// real ones.
///
///   gemm, grouped_gemm   b = ceil(m/tm) ceil(n/tn) count s, of the tile that kernel_time.h takes
///
///   attention            b = batch heads ceil(rows / attention_tile)
///
///   communication        b = collective_blocks; messages, all-to-alls: point_to_point_blocks
///
///   all others           b = ceil(bytes / stream_block)
///
///   blocks    = launches b
///   warps     = blocks ceil(threads / warp)
///   occupancy = min(r, b / units) threads of a block / threads that a unit holds
///
/// b: blocks of a launch; rows: queries, in backward passes keys; bytes: of a launch, read and
/// written; r: blocks that a unit holds at once, one of gemm, attention and communication, whose
/// blocks fill its shared memory, and as many as fit of the others. warp: 32 threads, of AMD 64.
/// occupancy is the share of a unit's warps, as Kineto estimates it ("est. achieved occupancy %":
/// blocks per SM times warps of a block over the warps of an SM).
/// The two companions of a backward attention kernel are not counted. Tiles follow from the times
/// that they take; threads and channels are conventions of libraries (data/calibrations/all).
struct LaunchShape {
  double launches = 0, blocks = 0, warps = 0;
  double occupancy = 0;  // 0 to 1
};

/// Nothing for what is no GPU of NVIDIA or AMD, and where data do not say how kernels are launched.
std::optional<LaunchShape> launch_shape(const spec::Gpu&, const spec::Op&);

}  // namespace triplepoint::perf
