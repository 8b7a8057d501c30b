// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/trace/collective_match.h"

namespace triplepoint::metrics {

/// Who held up one collective, by how much, and what that rank did instead.
struct LateStart {
  size_t collective = 0;              // index into CollectiveMatch::collectives
  int32_t rank = 0;                   // the last starter
  int64_t start_spread = 0;           // ns, last begin - first begin
  int64_t lead = 0;                   // ns, last begin - second last begin: what it alone cost
  int64_t waits = 0;                  // ns, of all other ranks, summed
  int64_t end_spread = 0;             // ns, last end - first end: how well the clocks agree
  int64_t shortest = 0, longest = 0;  // ns, of the ranks' kernels
  std::vector<std::string> chain;     // the cause, then the cause behind it; may be empty
  int32_t culprit = -1;   // whose own delays most of the waiting comes from; -1: no rank's
  int64_t blamed = 0;     // ns of the waiting that does
  int64_t own_delay = 0;  // ns, of `rank` since its communication before
  bool by_order = false;  // the pipeline's order explains it, no rank's delay
};

/// One rank, summed over the collectives it shares with others.
struct RankLateness {
  int32_t rank = 0;
  int64_t collectives = 0, times_last = 0;
  int64_t caused = 0;  // ns that others waited in collectives which this rank began last
  int64_t alone = 0;   // ns by which it was later than the second last
  int64_t waited = 0;  // ns it waited itself
  int64_t blamed = 0;  // ns that others waited because of its delays, also through others
  int64_t delay = 0;   // ns, signed: those delays, summed
  int64_t in_communication =
      0;  // ns of all its communication kernels: what a naive reading adds up
};

struct LateRanks {
  std::vector<RankLateness> ranks;   // in numeric order
  std::optional<int32_t> straggler;  // who is blamed most, if beyond the noise (see blame_delays)
  std::optional<int32_t> naive_straggler;  // who spent most time in communication kernels
  std::vector<LateStart> starts;           // in the order of the collectives
  bool has_all_ranks = true;               // else this is true of the ranks given
  bool by_cost = false;                    // the run says what each costs; see judge_by_cost
  std::optional<int32_t> busiest_stage;    // by cost: most waiting is for it, as it has more work
  std::optional<int32_t> stands_for;  // by cost: the rank in whose place the straggler is shown
};

/// "60.0 us", "8.28 ms", "1.02 s".
std::string time_text(int64_t nanoseconds);

/// Names who others wait for.
///
/// Waiting is inside a communication kernel, so the rank with most communication time is the one
/// that waited longest: the opposite of a straggler. Here each collective names the rank that began
/// last, and books the others' waiting to it; blame_delays finds whose own delays it comes from.
/// Clocks must agree: see fit_clocks.
///
/// The chain: over the time since the rank last met another one, what does it have more of
/// than the median of the others: lateness from before the window (inherited; then the chain of
/// that collective follows), time before its first activity, kernels, copies, or a device without
/// work; behind kernels: which one, and the clock, the throttle reasons and the temperature of its
/// device where `telemetry` (times on the same line) has them; behind a device without work: a late
/// launch, and which call its host thread was in, or the data loader.
/// The timeline is the one of the match.
LateRanks find_late_ranks(const SpanList&, const CollectiveMatch&,
                          const run::Run* telemetry = nullptr);
LateRanks find_late_ranks(const run::Timeline&, const CollectiveMatch&,
                          const run::Run* telemetry = nullptr);

}  // namespace triplepoint::metrics
