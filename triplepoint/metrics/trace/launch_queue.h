// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

/// How far the host ran ahead of one device lane.
///
///   delay = begin on the device - end of the call that launched it; negative where the device was
///           quicker than the call returned
///   depth = calls begun - kernels begun
///
/// Source: Holistic Trace Analysis, "launch statistics" and "queue length".
struct LaunchQueue {
  LaneOfSpans lane;  // without its spans
  int64_t launches = 0;
  int64_t unknown = 0;  // spans of which the trace does not show the launch
  int64_t shortest_delay = 0, median_delay = 0, p90_delay = 0, longest_delay = 0;  // ns
  int64_t median_call = 0;                                                         // ns
  int64_t deepest = 0;
  double mean_depth = 0;  // weighted by time, from the first call to the last begin
};

/// Of every device lane with at least one known launch.
std::vector<LaunchQueue> launch_queues(const run::Timeline&);

}  // namespace triplepoint::metrics
