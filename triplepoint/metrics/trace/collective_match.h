// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/collectives.h"

namespace triplepoint::metrics {

/// How collectives were found to belong together, and what could not be matched.
struct CollectiveMatch {
  std::vector<Collective> collectives;  // by first begin
  int64_t unmatched = 0;                // spans of communication that are alone in their collective
  bool has_all_ranks = true;            // else ranks of the job, or of a group, are not given
  std::vector<std::string> remarks;     // sentences for the reader of a table
  // Ranks that call one collective with different sizes, which is a fault of the program or of its
  // launch; empty: none.
  std::string mismatch;
};

/// Finds out which communication spans of different ranks are the same collective.
///
/// Collectives by communicator and sequence number where the trace has them; else by counting: the
/// n-th kernel of this label in this communicator on each rank, if every rank has equally many (a
/// rank that does not is left alone, and the remarks say so); in a timeline without details
/// (simulated: exact clocks) by equal type, end, and instant at which the last peer arrived.
/// Messages by their two ranks, in order of launch: PyTorch numbers them on each rank, so a stage
/// in the middle of a pipeline counts faster than one at its end. Without the peer's rank the pair
/// is known in groups of two only. The timeline has no instances.
///
/// Matches that cannot be are refused, and it is said: sizes that differ, and kernels that do not
/// overlap, although each has to last until all have begun (clocks as fitted, with a margin). Ranks
/// that no second collective connects are compared by their clocks as they are.
///
/// job_ranks: of the whole job, as the trace tells them; 0: not known. Where fewer ranks are given,
/// the size of a group that the trace does not name stays unknown.
CollectiveMatch match_collectives(const run::Timeline&, int32_t job_ranks = 0);

/// Ranks of the job that a run's traces are of, as they tell them; 0: not known.
int32_t job_ranks_of(const run::Run&);

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
bool waits_for_schedule(const Collective&, const run::Timeline&);

}  // namespace triplepoint::metrics
