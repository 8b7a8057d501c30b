// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/metrics/trace/collectives.h"

namespace triplepoint::metrics {

/// How far one rank's clock is ahead of the others', from the ends of collectives.
struct RankClock {
  int32_t rank = 0;
  int64_t offset = 0;    // ns; to be subtracted from the rank's times
  int64_t residual = 0;  // ns; median distance of its ends from the common end, offset taken out
  int64_t anchors = 0;   // collectives it shares with another rank; 0: its offset is not known
};

struct ClockFit {
  std::vector<RankClock> ranks;  // those with communication, in numeric order
  int64_t residual = 0;          // ns; median over all ends
  int64_t worst_residual = 0;    // ns
  int64_t anchors = 0;           // collectives that more than one rank shows
  int64_t islands = 0;           // sets of ranks that no collective connects; clocks of different
                                 // ones cannot be compared

  /// Margin of comparisons between ranks, ns: what ends scatter by, within 20 us and 1 ms.
  int64_t uncertainty() const;
  /// Whether a rank's clock is off by more than the ends scatter, and by more than `noise`.
  bool clocks_differ(int64_t noise = 20'000) const;
};

/// Fits end(r, c) = end(c) + offset(r), as a collective ends on all of its ranks at once: within 1
/// to 7 us on one host. Begins with the median differences between pairs of ranks, along the tree
/// of the pairs whose ends scatter least; then least absolute deviations by medians in turn. The
/// tree matters where most collectives stay inside a host: medians in turn alone then stop at the
/// clocks as they were. Medians, so that a few collectives that do not end together (a broadcast's
/// root is done early) do not matter. The median offset of connected ranks is 0, because no clock
/// is known to be right.
/// Source: Holistic Trace Analysis ignores clocks; 1 to 7 us measured on eight ranks of DLRM.
ClockFit fit_clocks(const std::vector<Collective>&);

/// "clocks agree ...", or what the ranks' clocks were moved by, with the residuals; nothing if no
/// two ranks share a collective.
std::string clock_sentence(const ClockFit&, bool aligned);

/// The timeline with every rank's offset taken out.
run::Timeline align_clocks(run::Timeline, const ClockFit&);

}  // namespace triplepoint::metrics
