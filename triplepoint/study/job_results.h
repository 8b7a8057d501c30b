// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/economics/lifetime.h"
#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// Wear of a run's GPUs by the library's constants; nothing without a library, or where the run
/// does not know power and heat.
std::optional<metrics::RunLifetimeUse> run_lifetime_use(const run::Run& run,
                                                        const metrics::Metrics& metrics);

/// A simulated job with all that its output shows.
struct JobResults {
  run::Run run;
  metrics::Metrics metrics;
  std::optional<run::Run> fault_free;          // a steady state with faults: without them
  std::optional<metrics::Interval> step_time;  // of a steady state
  std::optional<metrics::RunLifetimeUse> lifetime_use;
  std::optional<metrics::PowerProfile> profile;
  std::optional<metrics::Bill> bill;
  metrics::BillRates rates;
};
Json results_json(const JobResults&);
void print_results(tui::Console&, const JobResults&);

/// Columns of a results table that hold wear, and their cells; empty cells without it.
std::vector<std::string> lifetime_use_columns();
std::vector<std::string> lifetime_use_cells(const std::optional<metrics::RunLifetimeUse>& use);

}  // namespace triplepoint::study
