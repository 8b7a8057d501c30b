// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// One rank's kernel of a collective.
struct CollectivePart {
  int32_t rank = 0, span = 0;  // index into Timeline::spans
  int64_t begin = 0, end = 0;  // ns
  int64_t duration() const { return end - begin; }
};

/// One collective, as all ranks that the timeline shows took part in it.
///
///   arrival     = last begin; in a timeline that knows its waits (simulated), begin + wait
///   transfer    = last end - arrival: duration after the last arrival
///   wait of r   = arrival - begin of r, within its kernel; the last to begin does not wait
/// Source: telemetry of eight ranks of DLRM on one host: ends differ by 1 to 7 us, begins by up to
/// 7,624 us. A span's own `wait`, where the producer knows it (simulated runs), goes before.
struct Collective {
  std::string_view label;     // see label_of
  std::string_view name;      // of the kernel
  int32_t communicator = -1;  // index into Timeline::communicators
  int64_t sequence = -1;      // in its communicator, or how many of its kind came before
  Bytes size;                 // S of nccl-tests: the whole array; 0: not known
  int64_t count = -1;         // nccl-tests' column: elements that one rank contributes; -1: unknown
  int32_t group_size = 0;     // 0: not known
  bool is_message = false;    // from one rank to another
  int32_t sender = -1;        // of a message
  std::vector<CollectivePart> parts;  // by rank

  std::optional<int64_t> known_arrival;  // ns; where the producer knows it

  bool across_ranks() const { return parts.size() > 1; }
  bool knows_waits() const { return across_ranks() || known_arrival.has_value(); }
  int64_t first_begin() const;
  int64_t last_begin() const;
  int64_t first_end() const;
  int64_t last_end() const;
  int32_t last_starter() const;  // the lowest of those that begin last
  int64_t arrival() const { return known_arrival.value_or(last_begin()); }
  int64_t wait_of(const CollectivePart& part) const;
  bool is_partial() const {  // ranks of the group are missing
    return across_ranks() && group_size > static_cast<int32_t>(parts.size());
  }
  std::optional<int64_t> transfer() const;  // nothing where waits are not known
};

/// busbw / algbw of nccl-tests: all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all
/// (n-1)/n; broadcast and send-receive 1. Nothing for what it does not know, or for n < 1.
/// Source: nccl-tests, doc/PERFORMANCE.md.
std::optional<double> bus_factor(std::string_view label, int32_t ranks);

/// Collectives of one label, group size and message size, in nccl-tests' columns.
struct CollectiveRow {
  std::string_view label;
  int32_t group_size = 0;
  Bytes size;
  int64_t count = -1;
  int64_t occurrences = 0;
  int64_t total = 0, shortest = 0, longest = 0;  // ns, of the kernels, waiting included, all ranks
  int64_t kernels = 0;                           // over all ranks
  int64_t timed = 0, timed_kernels = 0;  // of these, those whose waits are known (see knows_waits)
  int64_t wait = 0, transfer = 0;        // ns, of the timed: summed over ranks, over occurrences
  /// algbw of the mean transfer; where only one rank is known, of the shortest kernel (the waits
  /// are inside the others).
  std::optional<double> algbw_gb_s, busbw_gb_s;

  std::optional<double> mean_transfer() const;  // ns; of the timed alone, as all means of a wait
  std::optional<double> mean_wait() const;      // ns, of a rank
};
/// Adds up collectives one by one.
class CollectiveTable {
 public:
  void add(const Collective&);
  /// By label, then group size, then message size.
  std::vector<CollectiveRow> rows() const;

 private:
  using Key = std::tuple<std::string_view, int32_t, Bytes, int64_t>;
  std::map<Key, CollectiveRow> rows_;
};
std::vector<CollectiveRow> tabulate(const std::vector<Collective>&);

/// How far one rank's clock is ahead of the others', from the ends of collectives.
struct RankClock {
  int32_t rank = 0;
  int64_t offset = 0;    // ns; to be subtracted from the rank's times
  int64_t residual = 0;  // ns; median distance of its ends from the common end, offset taken out
  int64_t anchors = 0;   // collectives it shares with ranks of its clock set; 0: not compared
};

struct ClockFit {
  std::vector<RankClock> ranks;  // those with communication, in numeric order
  int64_t residual = 0;          // ns; median over all ends
  int64_t worst_residual = 0;    // ns
  int64_t anchors = 0;           // collectives that several ranks of one clock set show
  int64_t islands = 0;           // clock sets: clocks of different ones cannot
                                 // be compared
  int64_t unchecked = 0;         // ranks that share a collective with another set

  /// Margin of comparisons between ranks, ns: what ends scatter by, within 20 us and 1 ms.
  int64_t uncertainty() const;
  /// Whether a rank's clock is off by more than the ends scatter, and by more than `noise`.
  bool clocks_differ(int64_t noise = 20'000) const;
};

/// Fits end(r, c) = end(c) + offset(r), as a collective ends on all of its ranks at once: within 1
/// to 7 us on one host. Begins with the median differences between pairs of ranks, along the tree
/// of the pairs whose ends scatter least; then least absolute deviations by medians in turn. The
/// tree matters where most collectives stay inside a host: medians in turn alone then stop at the
/// clocks as they were. Ranks that a single collective connects keep their clocks, as it fits any
/// offset. Medians, so that a few collectives that do not end together (a broadcast's
/// root is done early) do not matter. The median offset of connected ranks is 0, because no clock
/// is known to be right.
/// Source: Holistic Trace Analysis ignores clocks; 1 to 7 us measured on eight ranks of DLRM.
ClockFit fit_clocks(const std::vector<Collective>&);

/// "clocks agree ...", or what the ranks' clocks were moved by, with the residuals, or why they
/// were not; nothing if no two ranks share a collective.
std::string clock_sentence(const ClockFit&, bool aligned);

/// The timeline with every rank's offset taken out.
run::Timeline align_clocks(run::Timeline, const ClockFit&);

/// Sets of ranks whose clocks can be compared, and the comparison checked: by rank, the lowest rank
/// of its set.
///
/// One collective between two sets of ranks fits any offset of their clocks, with a residual of
/// zero. So two ranks are of one set where chains of collectives connect them in two ways: ranks
/// and collectives are the vertices of a graph, a kernel is an edge between its rank and its
/// collective, and a set is what stays connected whichever edge is removed. `met`: the ranks of
/// each collective.
std::map<int32_t, int32_t> clock_sets(const std::vector<std::vector<int32_t>>& met);

}  // namespace triplepoint::metrics
