// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/span_list.h"

namespace triplepoint::metrics {

/// One rank's own time before one part of a collective.
struct OwnTime {
  int64_t length = 0, busy = 0;
  int64_t kernel_excess = 0, gap_excess = 0;  // ns beyond the medians of the same ones
  int32_t slowest = -1;                       // span of the kernel with most excess
  int64_t most_excess = 0;                    // ns, of that
  int64_t unshared = 0;                       // ns in kernels that no other rank has
  int64_t excess() const { return kernel_excess + gap_excess; }
  double variance = 0;  // ns^2, as they usually scatter
  int64_t kernels = 0;
  bool is_first = false;    // of the rank in a measured timeline: its length tells nothing
  bool is_untimed = false;  // a kernel without sound stamps ran in it: its length tells nothing
};

/// The kernels of every rank, with how long each kind of them, and the gap before it, usually is.
class RankKernels {
 public:
  /// `ended`: when collectives whose stamps are left out have ended, ns, by span.
  explicit RankKernels(const SpanList&, std::map<int32_t, int64_t> ended = {});

  /// Of the rank's own time from `begin` until its communication span begins.
  OwnTime before(const CollectivePart&, int64_t begin) const;
  int64_t first_seen(int32_t rank) const { return first_.at(rank); }
  /// Nanoseconds of [begin, end) in which the rank's device runs kernels besides communication.
  int64_t busy(int32_t rank, int64_t begin, int64_t end) const {
    return between(rank, begin, end).busy;
  }

 private:
  /// A kernel whose length is not known, and between what times it ran.
  struct Untimed {
    int64_t begin = 0, end = 0;
    int32_t span = 0;
    bool is_ended = false;  // at `end`; else at most then
  };
  struct OfRank {
    std::vector<int32_t> spans;  // by begin
    int64_t longest = 0;
    std::vector<Untimed> untimed;
  };
  /// How long something usually takes, and how that varies on one rank.
  struct Usual {
    int64_t middle = 0;
    int32_t ranks = 0;    // that have it
    double variance = 0;  // of the median rank, so that one rank's troubles are no reason to doubt
  };
  class Durations;
  /// Type, blocks.
  using Work = std::pair<int32_t, int64_t>;

  OwnTime between(int32_t rank, int64_t begin, int64_t end) const;
  void add_gap(int32_t span, int64_t begin, OwnTime&) const;
  void find_untimed();
  bool for_untimed(int32_t rank, int64_t begin, int64_t end, auto visit) const;
  size_t number_work(int32_t span);
  size_t work_of(int32_t span) const;
  void for_each(int32_t rank, int64_t begin, int64_t end, auto visit) const;

  const SpanList& spans_;
  std::vector<OfRank> of_rank_;
  std::vector<int64_t> gap_;  // before each span on its rank's device, ns
  std::map<Work, size_t> works_;
  std::vector<int32_t> timed_type_;  // by type: itself, or of those of its name that have lengths
  std::vector<std::optional<Usual>> usual_, usual_gap_;  // by work; absent: none is known
  std::map<int32_t, int64_t> ended_;
  std::map<int32_t, int64_t> first_;  // when anything was first seen on the rank's device
};

/// What a host call is for, by its name.
enum class HostCallKind : uint8_t { other, data_loader, allocator, synchronization };
HostCallKind host_call_kind(std::string_view name);

/// The kind of call that hosts spent most of the time in while their device had nothing to run.
struct GapCalls {
  HostCallKind kind = HostCallKind::other;
  std::string name;  // of the longest call of this kind
  double share = 0;  // of all gaps; of `other` that of the named call alone
  Seconds time;      // in them, mean over the ranks
};

/// Innermost calls of each rank's busiest thread, over all ranks. A gap at whose begin the host
/// waits for the device is due to that synchronization, as the queue ran empty: all of it but what
/// the loader and the allocator take. Gaps shorter than 30 us (IdleRules), and, where
/// launches are known, those whose next kernel was not launched after they began, are left out.
/// Nothing where the timeline has no host calls or no gaps.
std::optional<GapCalls> calls_in_gaps(const run::Timeline&);

}  // namespace triplepoint::metrics
