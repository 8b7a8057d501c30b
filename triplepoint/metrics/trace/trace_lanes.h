// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/span_list.h"

namespace triplepoint::metrics {

/// What ran on one queue of one rank: a device stream or a host thread, as the profiler tells them
/// apart; of a timeline without details, the rank's compute, communication or host stream.
struct LaneOfSpans {
  int32_t rank = 0;
  run::Stream stream = run::Stream::compute;
  std::optional<int64_t> number;  // stream or thread number; absent: the timeline does not tell
  std::string name;
  std::vector<int32_t> spans;  // indices into the list of spans, by (begin, -end)
};
enum class LaneKind { device, host };

/// Every device lane (kernels and copies), or every host lane (host work; passes and steps are left
/// out, they enclose others), in order of rank, then as the timeline lists them.
std::vector<LaneOfSpans> lanes_of(const SpanList&, LaneKind);
/// Of each rank the one with most spans.
std::map<int32_t, LaneOfSpans> busiest_lanes(const SpanList&, LaneKind);

/// Which host call started a span on the device: index of the host span, -1 where the trace does
/// not tell. Both share rank and correlation; where several host spans do (a call inside another),
/// the one that ends first is the call into the driver.
std::vector<int32_t> launches_of(const run::Timeline&);

/// Whether any span on a device is known to have been launched by a host span of the timeline.
bool knows_launches(const std::vector<int32_t>& launches);

inline const run::SpanType& type_of(const run::Timeline& timeline, const run::Span& span) {
  return timeline.types[as_size(span.type)];
}
inline const run::SpanDetail* detail_of(const run::Timeline& timeline, size_t span) {
  return timeline.details.empty() ? nullptr : &timeline.details[span];
}
inline int64_t nanoseconds_of(const run::Span& span) {
  return span.end.nanoseconds() - span.begin.nanoseconds();
}

/// A stretch of a host thread in which the same span is the innermost one.
struct HostSegment {
  int64_t begin = 0, end = 0;
  int32_t span = 0;  // index into Timeline::spans
};

/// What a thread did, call by call: nested spans cut into the stretches of the innermost one.
/// Disjoint, in order of time; where no span is open there is none. A span that ends after the one
/// it began in is cut at that one's end.
std::vector<HostSegment> innermost_spans(const SpanList&, const LaneOfSpans&);

}  // namespace triplepoint::metrics
