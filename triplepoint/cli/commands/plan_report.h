// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/base/result.h"

#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/metrics/run/prediction_interval.h"
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
};

/// Prints the ranking, and in a table below it how it came about: counts, interval, what was
/// refused, what memory costs, the bill, the front; `explain`: two plans beside each other.
Result<void> print_outcome(tui::Console& console, const spec::Library& library,
                           const PlanOutcome& outcome, const FormatFlag& format,
                           const std::optional<std::string>& explain);

}  // namespace triplepoint::cli
