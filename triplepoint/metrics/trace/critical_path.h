// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// A kernel, a copy, or a stretch in which one host call is the innermost one. Longer than nothing.
struct Node {
  int64_t begin = 0, end = 0;  // ns
  int32_t rank = 0, span = 0;  // index into Timeline::spans
  bool on_host = false;
  int32_t sync_point = -1;  // index into DependencyGraph::sync_points
  int32_t blocked_on = -1;  // host: the node whose end this call waited for

  /// What had to happen before it began; -1: nothing.
  int32_t lane = -1;    // the node before it in its lane has ended
  int32_t launch = -1;  // the host node that launched it has come to launched_at
  int32_t other = -1;   // the node of another lane or thread that it seems to wait for has ended
};

/// A collective that several ranks take part in: it moves on once the last one has begun.
struct SyncPoint {
  std::vector<int32_t> nodes;
  int32_t last = -1;  // the node that began last
  int64_t arrival = 0;
};

/// Who waited for whom. What is certain: order in a lane, launch before kernel, the last rank
/// before a collective moves on, device before the call that blocks on it (Synchronize, or a copy
/// that has ended when its call returns). What is inferred, as traces do not hold it: a kernel that
/// begins within `stream_gap` of the end of the last kernel of another stream, later than all that
/// is certain, waited for it; a host thread that goes on after having had no call open was woken by
/// the last other thread of its rank that ended a call meanwhile; and a host thread that spends a
/// long time in no call, while other threads of its rank are at work for most of it,
/// waits for them (as the main thread does for the autograd engine's).
struct DependencyGraph {
  std::vector<Node> nodes;
  std::vector<SyncPoint> sync_points;
};
/// A kernel is on its way when the call that launches it returns, or when it begins, if that is
/// earlier.
int64_t launched_at(const Node& call, const Node& kernel);
struct DependencyRules {
  int64_t stream_gap = 30'000;  // ns
};

/// Of a timeline without instances, with clocks that agree (see fit_clocks).
DependencyGraph build_dependency_graph(const run::Timeline&, const DependencyRules& = {});

/// The latest of what had to happen before a node began; time is INT64_MIN and node -1 if nothing.
enum class Reason : uint8_t { nothing, lane, launch, other };
struct Binding {
  Reason reason = Reason::nothing;
  int32_t node = -1;
  int64_t time = INT64_MIN;
};
Binding binding_of(const DependencyGraph&, const Node&);

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

/// When everything would have ended (ns), if all pieces of one label took no time; with a label
/// that nothing has, the time at which it did end.
int64_t play_without(const run::Timeline&, const DependencyGraph&, std::string_view label);

}  // namespace triplepoint::metrics
