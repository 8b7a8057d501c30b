// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// How a recording's clock was laid beside that of the first one.
enum class AlignedBy {
  same_clock,   // one kernel: all share its monotonic clock
  wall_clock,   // the anchors of both, as good as the nodes' NTP or PTP
  collectives,  // wall clock first, then ends of the same collectives, which differ by microseconds
  steps         // the same with ends of steps
};
std::string_view name_of(AlignedBy);

struct Alignment {
  std::string host;
  AlignedBy by = AlignedBy::same_clock;
  Seconds offset;                   // added to the recording's times
  std::optional<Seconds> residual;  // 1.48 times the median distance of what should coincide; for
                                    // the wall clock alone, how far its anchors wander
  int64_t num_events = 0;           // that were compared
};

struct Merged {
  Run run;
  std::vector<Alignment> alignments;  // one per recording
};

/// Recordings of one job's nodes as one run, on the first one's time line. Devices and nodes are
/// numbered on; ranks stay what the launcher said, and are numbered on where two recordings have
/// the same. Steps are joined one by one, from the first node's begin to the last node's end.
///
/// Ends and not begins of collectives are compared: on one host the former lie within 7 us, the
/// latter milliseconds apart, since the first rank waits inside.
Result<Merged> merge(std::vector<Run> recordings);

}  // namespace triplepoint::run
