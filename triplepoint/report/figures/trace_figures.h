// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/view.h"
#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/critical_path.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// What `triplepoint trace` says about a run's timeline, as sections of its page: where the time
/// went by rank, collectives, who was late, the critical path. Of timelines with more than a
/// million spans only where the time went, and that is said. Empty for a run without device work.
std::string trace_section(const run::Run&, const metrics::Metrics&);

/// A bar per rank: compute, exposed communication, exposed copies, and idle by its class, which add
/// up to the rank's span. Of exposed communication the waiting is apart, where `waits` (by rank)
/// tells it: for the pipeline, and for late peers. The table ends with smallest, median and largest
/// and whose they are.
Drawing breakdown_figure(const std::vector<metrics::RankBreakdown>&,
                         const std::vector<metrics::ExposedWaits>& waits = {});

/// The same of a simulated run: the parts of its step, whose means are those of its key figures.
Drawing step_parts_figure(const std::vector<metrics::RankParts>&);

/// When each pipeline stage works, and when it waits. Empty for a run without stages or passes, and
/// where there are more than can be told apart.
Drawing pipeline_figure(const run::Run&);

/// Collectives by kind and size, in the columns of nccl-tests: the mean kernel, waiting and
/// transfer apart where they are known. The title tells waiting for the pipeline from waiting for
/// late peers. The timeline is the one of the collectives.
Drawing collectives_figure(const metrics::CollectiveMatch&, const metrics::SpanList&);

/// A bar per rank: how long others waited for it.
Drawing lateness_figure(const metrics::LateRanks&);

/// A bar per class of the path: what making it free would save, and what another chain would take.
/// Of a timeline that does not know launches (a simulated one) the bars are not divided: what would
/// be saved hangs on dependencies that it does not hold.
Drawing path_figure(const metrics::CriticalPath&, bool knows_launches);

/// Which of many bars are drawn: all up to 64; else the eight with most, the eight around the
/// median, and the eight with least of the amount. Indices, ascending.
std::vector<std::size_t> drawn_of(const std::vector<double>& amounts);
/// What is left out of such a drawing, with a space before it; empty if nothing is.
std::string drawn_note(std::size_t drawn, std::size_t all);

}  // namespace triplepoint::report
