// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/breakdown.h"

namespace triplepoint::metrics {

/// One training step, rank by rank.
struct TraceStep {
  struct OfRank {
    int32_t rank = 0;
    int64_t begin = 0, end = 0;  // ns
  };
  std::string name;           // "ProfilerStep#4"; of a found step "step 1"
  std::vector<OfRank> ranks;  // in numeric order; a rank may be missing
};

/// How the steps were found.
enum class StepSource {
  none,         // there is no way to tell
  annotations,  // the trace marks them (ProfilerStep#N)
  periodicity   // the kernels repeat
};
struct TraceSteps {
  StepSource source = StepSource::none;
  std::vector<TraceStep> steps;       // in order of time
  std::vector<int32_t> step_of_span;  // per span of the timeline; -1: in none
};

/// Finds the steps of a timeline without instances.
///
/// Marked steps: a device span belongs to the step in which its launch began; where the launch is
/// not known, and for host spans, its own begin decides. Marks on the device repeat those of the
/// host and are used only where it has none. Where the host runs ahead, the device tells lengths.
///
/// Without marks: the names of the kernels of each rank's busiest lane, in order, are searched for
/// the shortest period with which at least nine of ten names repeat; steps begin at the place of
/// the period with the longest gaps before it. What comes before the first such place is in no
/// step. A rank in which nothing repeats has no steps.
TraceSteps find_steps(const run::Timeline&);

/// Of marked steps those of the longest stretch of consecutive numbers: what a profiler did not see
/// between others is no time between steps. All, where names have no numbers.
TraceSteps consecutive_steps(TraceSteps);

/// Only the spans that are kept, by their index.
run::Timeline part_of(const run::Timeline&, const std::function<bool(size_t)>& keeps);
/// Only what belongs to steps, or to one.
run::Timeline inside_steps(const run::Timeline&, const TraceSteps&);
run::Timeline step_of(const run::Timeline&, const TraceSteps&, size_t step);

/// Calls visit(step, timeline) for every step, in order; the timeline is only valid during the
/// call.
void for_each_step(const run::Timeline&, const TraceSteps&,
                   const std::function<void(size_t, const run::Timeline&)>& visit);

/// One rank's steps with work on its device, in the mean, in ns; without steps all that is seen of
/// the device as one.
///
///   length  (end of its last step - begin of its first) / steps
///   idle    RankBreakdown::idle_time of a step, and `between`
///   between from the last end of a step to the first begin of the rank's next one, by the same
///           classes; overlapping steps have none. At most what the length leaves beside busy time
///           and the idle time inside steps
///   outside time in which only what belongs to no step runs, between its steps
struct MeanStep {
  int32_t rank = 0;
  int64_t steps = 0;  // 0: none are known
  int64_t length = 0, outside = 0;
  IdleTime idle, between;
};
std::vector<MeanStep> mean_steps(const run::Timeline&, const TraceSteps&);

}  // namespace triplepoint::metrics
