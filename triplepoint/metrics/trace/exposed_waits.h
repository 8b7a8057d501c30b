// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/collective_match.h"

namespace triplepoint::metrics {

/// Of a rank's exposed communication (see RankBreakdown), what is waiting. The rest is transfer;
/// the three are disjoint.
struct ExposedWaits {
  int64_t pipeline = 0;    // ns, in messages between stages: the schedule has nothing to do
  int64_t late_peers = 0;  // ns, in collectives, for the last of the group
};

/// By rank, from rank 0 on. A kernel's wait is what the match says of it, or where the producer
/// knows it (simulated), what the timeline says. Zero where neither does. The timeline is the one
/// of the match, and has no instances.
std::vector<ExposedWaits> exposed_waits(const run::Timeline&, const CollectiveMatch&);

/// Whether a collective waits for the schedule rather than for a late peer: messages between stages
/// and what ties stages together (see Occupancy).
bool waits_for_schedule(const Collective&, const SpanList&);

}  // namespace triplepoint::metrics
