// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/dependency_graph.h"
#include "triplepoint/metrics/trace/span_list.h"

namespace triplepoint::metrics {

/// A stretch of the longest chain of dependencies.
struct PathPiece {
  int64_t begin = 0, end = 0;  // ns
  int32_t rank = 0;
  std::string_view label;  // of a kernel: see label_of (a collective's is its transfer); "host";
                           // and what lies between: see delay_labels
  int32_t span = -1;       // index into Timeline::spans; of a delay, what it delays
};

/// Delays: from the end of the launching call to the begin of the kernel; from one kernel to the
/// next of its stream, or of another stream; between calls of a host thread; from a thread that
/// wakes another to its first call.
inline constexpr std::string_view launch_delay = "launch", stream_delay = "stream gap",
                                  cross_stream_delay = "cross-stream gap",
                                  untraced_host = "host untraced", wake_up = "thread wake-up";

/// One class of the path's pieces, and what it would bring to make them free.
struct PathShare {
  std::string_view label;
  int64_t on_path = 0;  // ns
  int64_t pieces = 0;
  int64_t saved_if_free = 0;  // ns by which everything would end earlier if the class took no time
};
struct PathSpanShare {
  int32_t type = 0;  // index into Timeline::types
  int64_t on_path = 0, pieces = 0;
};
struct PathRankShare {
  int32_t rank = 0;
  int64_t on_path = 0;
};

/// The chain of dependencies that ends last, walked backwards: at each step the latest of what had
/// to happen before. It has no holes, so its pieces add up to `length`, the time from where it
/// begins to the last end on a device (on a host, if no device has anything).
///
/// saved_if_free: the graph simulated again with the class's durations set to nothing, all delays
/// and other durations kept; less than `on_path` where another chain is nearly as long. Waiting
/// inside collectives is on no path: the path goes on with the rank that came last.
struct CriticalPath {
  std::vector<PathPiece> pieces;       // in order of time
  std::vector<PathShare> shares;       // longest first
  std::vector<PathSpanShare> kernels;  // by name, longest first; delays left out
  std::vector<PathRankShare> ranks;    // in numeric order
  int64_t begin = 0, end = 0;
  // How long before `begin` its first rank was already at work: what the first piece waited for is
  // not in the timeline, as in simulated ones, which have no launches.
  int64_t not_followed = 0;
  int64_t length() const { return end - begin; }
  /// It reaches back far enough to be taken for the whole.
  bool is_whole() const { return not_followed <= length() / 10; }
};
CriticalPath critical_path(const run::Timeline&, const DependencyRules& = {});
/// The same of a timeline that knows neither launches nor hosts (DeviceOrder::holds): what would be
/// saved hangs on dependencies that it does not hold, so saved_if_free is 0.
CriticalPath critical_path(const SpanList&, const CollectiveMatch&);

/// When everything would have ended (ns), if all pieces of one label took no time; with a label
/// that nothing has, the time at which it did end.
int64_t critical_path_without(const run::Timeline&, const DependencyGraph&, std::string_view label);

}  // namespace triplepoint::metrics
