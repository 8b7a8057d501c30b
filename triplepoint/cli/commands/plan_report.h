// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/cli/flags/bill_flags.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/finalists.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {

/// What a search found, and what belongs to it.
struct PlanOutcome {
  const spec::Job& base;
  const search::Space& space;
  const search::Ranking& ranking;
  const metrics::BillRates& rates;
  const metrics::PredictionIntervals& intervals;
  const BillFlags& bill;
  const search::Objective& objective;
  search::SearchOptions search;  // how it was searched
  size_t top = 5;
};

/// The ranking as `table`, and below it how it came about: counts, interval, what was refused,
/// what memory costs, the bill, the front.
void print_plan(tui::Console& console, const PlanOutcome& outcome, const DataTable& table,
                bool front);
/// The best plans as 1-job.toml, 1-megatron.sh, 1-nemo.yaml, 2-... in a folder.
Result<void> write_plans(tui::Console& console, const spec::Library& library,
                         const PlanOutcome& outcome, const Path& folder);
Json plan_json(const PlanOutcome& outcome, const std::optional<DataTable>& comparison);

}  // namespace triplepoint::cli
