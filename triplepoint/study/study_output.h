// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/study/runner.h"

namespace triplepoint::study {

/// Whose pages lie beside their runs, one click from the study's page: a page is up to a megabyte.
enum class RunPages { none, best, all };

/// The fastest, the thriftiest and the hottest job of each model on each machine.
std::vector<std::size_t> best_rows(const report::Study& study);

/// Writes runs/NAME.html for the runs of the results that are chosen, unless the page is there
/// already, and links every row to its page if there is one.
Result<void> write_run_pages(const Watch&, StudyResults& results, const Path& folder,
                             RunPages which, int threads);

/// What jobs ask for in vain or against themselves: each once, with a job.
std::vector<std::string> warnings_of(const report::Study& study);

/// A simulated job with all that its output shows.
struct JobResults {
  run::Run run;
  metrics::Metrics metrics;
  std::optional<run::Run> fault_free;          // a steady state with faults: without them
  std::optional<metrics::Interval> step_time;  // of a steady state
  std::optional<metrics::PowerProfile> profile;
  std::optional<metrics::Bill> bill;
  metrics::BillRates rates;
};
Json results_json(const JobResults&);
/// Flags with which a job that is out of memory fits; empty if it fits or none are found.
std::string flags_that_fit(const JobResults&);

}  // namespace triplepoint::study
