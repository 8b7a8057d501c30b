// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// Numbers of single devices stay in the run where there are more: 100,000 of them are not readable
/// as text, and a study of such jobs would write hundreds of megabytes.
inline constexpr size_t most_listed_devices = 4096;

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
