// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// One run as the object that `--format json` prints. Keys, units and meaning:
/// docs/results-schema.md. What the run does not know is null; a job that does not fit says so and
/// shows its memory, nothing else.
Json results_json(const run::Run&, const Metrics&);

/// One run as one row of results.csv: names with units, numbers in their shortest exact form, empty
/// where unknown. Every row has the same columns.
std::vector<std::string> results_columns();
std::vector<std::string> results_row(const run::Run&, const Metrics&);

/// Index of the stage whose GPU needs most; 0 without memory.
size_t worst_stage(const run::Run&);

}  // namespace triplepoint::metrics
