// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
/// is certain, waited for it (in a simulated timeline however long before it ended); a host
/// thread that goes on after having had no call open was woken by the last other thread of its rank
/// that ended a call meanwhile; and a host thread that spends a long time in no call, while other
/// threads of its rank are at work for most of it, waits for them (as the main thread does for the
/// autograd engine's).
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

}  // namespace triplepoint::metrics
