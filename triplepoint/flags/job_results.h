// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/learn/calibration.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/metrics/run/prediction_interval.h"

namespace triplepoint::flags {

inline constexpr int results_schema = 3;  // docs/results-schema.md says what changed

Json as_json(const std::vector<spec::Diagnosis>& diagnoses);

/// A simulated job with all that its output shows.
struct JobResults {
  run::Run run;
  metrics::Metrics metrics;
  std::optional<run::Run> fault_free;  // a steady state with faults: without them
  std::optional<metrics::PowerProfile> profile;
  std::optional<metrics::Bill> bill;
  metrics::BillRates rates;
};
Json results_json(const JobResults&);
/// Between what the step time of a steady state without faults lies, by own runs of its kind or by
/// what was measured elsewhere.
void state_interval(run::Run&, const metrics::PredictionIntervals&,
                    const std::optional<learn::Calibration>& own);
/// Flags with which a job that is out of memory fits; empty if it fits or none are found.
struct FittingFlags {
  std::string flags;
  bool barely = false;  // less memory stays free than predictions of it may err by
  std::string text() const;
};
FittingFlags flags_that_fit(const JobResults&);

}  // namespace triplepoint::flags
