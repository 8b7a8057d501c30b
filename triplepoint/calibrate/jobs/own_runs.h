// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/tables/scores.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::calibrate {

/// Measured runs of a place, and what of its tables says nothing of a step's time, with the reason.
struct OwnRuns {
  std::vector<learn::OwnRun> runs;
  std::vector<learn::HeatRun> heat;
  std::vector<SkippedRow> skipped;
};

/// Adds the rows of a jobs.csv (job_rows.h).
Result<void> add_own_runs(const CsvTable&, const spec::Library&, OwnRuns&);

}  // namespace triplepoint::calibrate
