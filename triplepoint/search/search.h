// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "triplepoint/base/watch.h"

#include "triplepoint/search/objective.h"
#include "triplepoint/search/space.h"
#include "triplepoint/search/step.h"

namespace triplepoint::search {

/// The best plan of the layouts that differ in nothing but chunks of a stage.
struct Candidate {
  int64_t index = 0;  // in the space
  Layout layout;
  spec::Plan plan;
  double bound = 0;  // of the objective
  StepEstimate step;
  Bytes memory;      // on the fullest device
  double value = 0;  // of the objective, schedule-accurate
};

/// What became of all plans. The same for any number of threads.
struct SearchCounts {
  int64_t plans = 0, layouts = 0;
  int64_t out_of_memory = 0;       // by the closed form, of plans that time did not rule out before
  int64_t layouts_simulated = 0;   // layouts whose bound did not rule them out
  int64_t simulated = 0;           // schedules simulated
  int64_t simulated_on_links = 0;  // of these, event by event over shared links
  int64_t exact_out_of_memory = 0;
  SearchCounts& operator+=(const SearchCounts&);
};

struct SearchOptions {
  int threads = 1;
  size_t keep = 12;                                        // layouts, whatever their chunks
  double worst = std::numeric_limits<double>::infinity();  // of the objective; nothing above it
  Watch watch = {};
};

struct Found {
  std::vector<Candidate> best;  // best first
  SearchCounts counts;
};

/// The best plans of a space, as an exhaustive schedule-accurate search would find them.
///
/// Layouts are bounded as a whole first (layout_scan.h), in the order of groups that share
/// estimates. Then they are taken in the order of what is known of them: a layout whose bound may
/// still win is bounded plan by plan, and one whose best plan's bound may, too, is searched in the
/// order of its plans' bounds, until no bound is below the `keep`-th best value found. A plan is
/// dropped only by a bound that is above what was found, so the answer is that of a search without
/// bounds; of equal values the lower index wins. Layouts are taken in batches of fixed size, so
/// that threads change nothing.
Found search(const Space&, const Objective&, const Limits&, const SearchOptions&);

/// One plan at the schedule-accurate fidelity, for comparing a plan of one's own.
Candidate evaluate_plan(const spec::Job&, const Objective&);

}  // namespace triplepoint::search
