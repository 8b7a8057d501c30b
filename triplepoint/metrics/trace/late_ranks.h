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
  int32_t culprit = -1;   // whose own delays most of the waiting comes from; -1: no rank's
  int64_t own_delay = 0;  // ns, of `rank` since its communication before
  // Of it, ns beyond what the same kernels, and the gaps before them, take elsewhere; and the span
  // of the kernel with most of it, -1: none. Of kernels beside each other the sum, which may be
  // more.
  int64_t kernels = 0, gaps = 0;
  int32_t slowest = -1;
  int64_t unshared = 0;        // ns in kernels that no other rank has: other work, no delay
  bool are_comparable = true;  // else the ranks do different work before it
  bool by_order = false;       // the pipeline's order explains it, no rank's delay
  bool is_first = false;  // of that rank in a measured timeline: its profiler may have begun late
};

/// One rank, summed over the collectives it shares with others.
struct RankLateness {
  int32_t rank = 0;
  int64_t collectives = 0, times_last = 0;
  int64_t caused = 0;  // ns that others waited in collectives which this rank began last
  int64_t alone = 0;   // ns by which it was later than the second last
  int64_t waited = 0;  // ns it waited itself
  int64_t blamed = 0;  // ns that others waited because of its delays, also through others
  int64_t delay = 0;   // ns: those delays, summed
  int64_t in_communication =
      0;                      // ns of all its communication kernels: what a naive reading adds up
  bool beyond_noise = false;  // the delays; see blame_delays
};

struct LateRanks {
  std::vector<RankLateness> ranks;         // in numeric order
  std::optional<int32_t> straggler;        // who is blamed most, of those beyond the noise
  std::optional<int32_t> naive_straggler;  // who spent most time in communication kernels
  std::vector<LateStart> starts;           // in the order of the collectives
  bool has_all_ranks = true;               // else this is true of the ranks given
  int64_t untimed = 0;                     // times between collectives with stamps left out
  std::string mismatch;                    // see CollectiveMatch
  /// ns that ranks waited for the last to begin, in all collectives: blame and `caused` are of it.
  int64_t waits() const;
};

/// Names who others wait for.
///
/// Waiting is inside a communication kernel, so the rank with most communication time is the one
/// that waited longest: the opposite of a straggler. Here each collective names the rank that began
/// last, and books the others' waiting to it; blame_delays finds whose own delays it comes from,
/// late_bottlenecks what shows why. Clocks must agree: see fit_clocks. The timeline is the one of
/// the match.
LateRanks find_late_ranks(const SpanList&, const CollectiveMatch&);
LateRanks find_late_ranks(const run::Timeline&, const CollectiveMatch&);

/// Why the last starter was last, in some words; empty if it was hardly later or nothing tells.
std::string cause_text(const LateStart&, const SpanList&);

/// "60.0 us", "8.28 ms", "1.02 s".
std::string time_text(int64_t nanoseconds);

/// The ranks whose delays are beyond the noise, each with what its worst late arrival shows: most
/// of its delay is in kernels, or in gaps; then which kernel, or what its host was at; then, where
/// `telemetry` (times on the same line) has them, clock, power and heat of its GPU meanwhile beside
/// those of the other ranks.
std::vector<run::Bottleneck> late_bottlenecks(const SpanList&, const CollectiveMatch&,
                                              const LateRanks&,
                                              const run::Run* telemetry = nullptr);

/// The same of a run with its own series; nothing where its spans do not tell: where no collective
/// is seen on two ranks, ranks are missing, or spans are more than a million.
std::optional<std::vector<run::Bottleneck>> late_bottlenecks(const run::Run&);

}  // namespace triplepoint::metrics
