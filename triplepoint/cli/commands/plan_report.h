// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/neighbours.h"
#include "triplepoint/study/plan_search.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {

/// What a search found, and what belongs to it.
struct PlanOutcome {
  const study::PlanQuestion& asked;
  const search::Space& space;
  const search::Ranking& ranking;
  const metrics::BillRates& rates;
  const metrics::PredictionIntervals& intervals;
  const BillFlags& bill;
  std::optional<search::OtherPlan> own;  // the job file's own layout
};

/// The layout that the job has itself, if it has one that can run.
std::optional<search::OtherPlan> own_plan(const study::PlanQuestion&);

/// How the ranking came about: counts, interval, what was refused, what memory costs, the bill.
std::vector<std::string> plan_sentences(const PlanOutcome& outcome);
/// report.html in the folder of the plans.
Result<void> write_plan_page(const Path& folder, const PlanOutcome& outcome,
                             const std::vector<std::string>& sentences);

/// Prints the ranking, below it the sentences and the front; `explain`: two plans beside each
/// other.
Result<void> print_outcome(tui::Console& console, const spec::Library& library,
                           const PlanOutcome& outcome, const std::vector<std::string>& sentences,
                           const FormatFlag& format, const std::optional<std::string>& explain);

}  // namespace triplepoint::cli
