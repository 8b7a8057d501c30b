// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

/// A stretch of a host thread in which the same span is the innermost one.
struct HostSegment {
  int64_t begin = 0, end = 0;
  int32_t span = 0;  // index into Timeline::spans
};

/// What a thread did, call by call: nested spans cut into the stretches of the innermost one.
/// Disjoint, in order of time; where no span is open there is none. A span that ends after the one
/// it began in is cut at that one's end.
std::vector<HostSegment> innermost_spans(const run::Timeline&, const LaneOfSpans&);

}  // namespace triplepoint::metrics
