// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/span_list.h"

namespace triplepoint::metrics {

/// How collectives were found to belong together, and what could not be matched.
struct CollectiveMatch {
  std::vector<Collective> collectives;  // by first begin
  // Spans of a timeline without details that belong to no other one, by begin: each is a separate
  // collective, see for_each_collective(). Only of a list of spans.
  std::vector<int32_t> alone;
  int64_t unmatched = 0;             // spans of communication that are alone in their collective
  bool has_all_ranks = true;         // else ranks of the job, or of a group, are not given
  std::vector<std::string> remarks;  // sentences for the reader of a table
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
/// Where counted numbers do not hold, as records of some ranks are missing, ends tell:
/// pair_by_time. Matches that cannot be are refused, and it is said: sizes that differ, and kernels
/// that do not overlap, although each has to last until all have begun (clocks as fitted, with a
/// margin). Ranks that no second collective connects are compared by their clocks as they are.
///
/// job_ranks: of the whole job, as the trace tells them; 0: not known. Where fewer ranks are given,
/// the size of a group that the trace does not name stays unknown.
CollectiveMatch match_collectives(const SpanList&, int32_t job_ranks = 0);
/// The same with all of them in `collectives`.
CollectiveMatch match_collectives(const run::Timeline&, int32_t job_ranks = 0);

/// Writes what a span is that is alone over `made`, which is empty or was made so before.
void make_alone(const SpanList&, int32_t span, Collective& made);
/// Whether a span that is alone comes before a collective of others: by first begin, then as they
/// were matched.
bool comes_before(const SpanList&, int32_t alone, const Collective&);

/// Calls visit(const Collective&) for each, those of one span included, by first begin. What is
/// visited of these is overwritten by the next.
void for_each_collective(const SpanList& spans, const CollectiveMatch& match, auto&& visit) {
  Collective made;
  size_t next = 0;
  const auto visit_alone = [&] {
    make_alone(spans, match.alone[next++], made);
    visit(std::as_const(made));
  };
  for (const Collective& collective : match.collectives) {
    while (next < match.alone.size() && comes_before(spans, match.alone[next], collective))
      visit_alone();
    visit(collective);
  }
  while (next < match.alone.size())
    visit_alone();
}

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
bool waits_for_schedule(const Collective&, const SpanList&);

}  // namespace triplepoint::metrics
