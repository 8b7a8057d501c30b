// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::report {

/// Which single spans a page gets: all up to `most`; beyond, host spans go first, then the
/// shortest.
struct ChosenSpans {
  std::vector<bool> is_sent;  // by index into Timeline::spans
  std::string note;           // what is left out; empty: nothing
};

/// One row of the viewer: a rank, and others that do the same at the same time (never in a timeline
/// with details: each span of a measured one is its own).
struct TimelineRow {
  int32_t rank = 0;
  std::vector<int32_t> like;  // ascending
};

ChosenSpans choose_spans(const run::Timeline&, std::size_t most);
std::vector<TimelineRow> rows_of(const run::Timeline&);
/// "rank 3", "ranks 8-15".
std::string label_of(const TimelineRow&);
/// The pipeline stage; -1: not known.
int32_t stage_of(const run::Timeline&, int32_t rank);
/// The node of a rank and of all that are like it; -1: not known, or several.
int32_t node_of(const run::Run&, const TimelineRow&);

}  // namespace triplepoint::report
