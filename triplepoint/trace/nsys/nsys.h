// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// What Nsight Systems exports with `nsys export --type sqlite`.
///
/// The export makes a table, and often a column, only where it has something to put into it: each
/// is looked for. A rank is a process with work on a device, in the order of its first device and
/// its number; with ReadOptions::rank, the only one. Kernels, copies, graphs, runtime calls and
/// NVTX ranges become spans; correlation ids hold inside their process. Times count from the
/// session's start, whose wall clock is in TARGET_INFO_SESSION_START_TIME.
bool looks_like_nsys(std::string_view head);
Result<Trace> read_nsys(Input&, const ReadOptions&);

}  // namespace triplepoint::trace
