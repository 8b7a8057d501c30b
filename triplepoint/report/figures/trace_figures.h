// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/critical_path.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// What `triplepoint trace` says about a run's timeline, as sections of its page: where the time
/// went by rank, collectives, who was late, the critical path. Of timelines with more than a
/// million spans only where the time went, and that is said. Empty for a run without device work.
struct TraceSection {
  std::string html;
  bool names_stragglers = false;  // it says who was waited for
  std::string straggler;          // in a sentence
};
TraceSection trace_section(const run::Run&);

/// A bar per rank: compute, exposed communication, exposed copies, and idle by its class, which add
/// up to the rank's span. The table ends with smallest, median and largest and whose they are.
Figure breakdown_figure(const std::vector<metrics::RankBreakdown>&);

/// Collectives by kind and size, in the columns of nccl-tests: the mean kernel, waiting and
/// transfer apart where they are known.
Figure collectives_figure(const std::vector<metrics::Collective>&);

/// A bar per rank: how long others waited for it.
Figure lateness_figure(const metrics::LateRanks&);

/// A bar per collective: how long all waited for the last one; who it was and why are in the table.
Figure late_starts_figure(const metrics::LateRanks&, const metrics::CollectiveMatch&);

/// A bar per class of the path: what making it free would save, and what another chain would take.
/// Of a timeline that does not know launches (a simulated one) the bars are not divided: what would
/// be saved hangs on dependencies that it does not hold.
Figure path_figure(const metrics::CriticalPath&, bool knows_launches);

/// Which of many bars are drawn: all up to 64; else the eight with most, the eight around the
/// median, and the eight with least of the amount. Indices, ascending.
std::vector<std::size_t> drawn_of(const std::vector<double>& amounts);

}  // namespace triplepoint::report
