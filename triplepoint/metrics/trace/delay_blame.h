// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/span_list.h"

namespace triplepoint::metrics {

/// Whose delays the ranks of a timeline waited for; by rank.
struct DelayBlame {
  struct Rank {
    int64_t delay = 0;    // ns: own work beyond what was expected, over all windows; 0: none
    int64_t blamed = 0;   // ns that others waited because of it
    int64_t untimed = 0;  // windows with kernels whose stamps are left out
    bool beyond_noise = false;
  };
  std::vector<Rank> ranks;
  /// Of each collective: the rank that most of its waiting is blamed on, and how much; -1: none.
  struct Culprit {
    int32_t rank = -1;
    int64_t blamed = 0;     // ns
    int64_t own_delay = 0;  // ns, of the last starter since it last met another rank
    // Where the ranks' windows hold different work, ns beyond what the same kernels, and the gaps
    // before them, take elsewhere; and the span of the kernel with most of it, -1: none.
    bool are_comparable = true;
    int64_t kernels = 0, gaps = 0;
    int32_t slowest = -1;
    int64_t unshared = 0;  // ns in kernels that no other rank has: no delay
  };
  std::vector<Culprit> culprits;  // as the collectives
};

/// Delays are propagated along collectives and messages, so a rank that is late only because it
/// waited before is not blamed.
///
/// A window of a rank lasts from the end of its communication before to the begin of this one: all
/// of it is the rank's own time. Its delay is what it lasts longer than expected: than the median
/// of the peers, where these ran as many kernels; else kernel by kernel, than the median of the
/// same kernel and of the gap before it over all ranks; so where stamps are left out, whose kernels
/// and gaps beside them are not known. So filling and draining a pipeline is no
/// delay. What a profiler shows of a rank begins with its first kernel: that it began later on one
/// rank than on others is no delay. Each rank carries the delays, by the rank they come from, that
/// its present lag consists of. Who waits at a collective takes over those of the last starter that
/// it does not have yet, up to the exposed wait, and they are blamed for it.
///
/// Beyond noise: the rank's delays, summed, exceed those of the median rank by six times what the
/// scatter of single kernels, gaps and ends adds up to, and what they cost each other rank exceeds
/// 0.5 % of the timeline. Or it is late again and again: over twenty windows or more their mean
/// exceeds its standard error five times, and what they cost is 2 % or more. One long pause of all
/// ranks makes the scatter of gaps too large for the first; one of a single rank is not the second.
///
/// Source: Boehme, Geimer, Wolf, Voigtlaender, "Identifying the root causes of wait states in
/// large-scale parallel applications", ICPP 2010.
DelayBlame blame_delays(const SpanList&, const CollectiveMatch&);

}  // namespace triplepoint::metrics
