// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/economics/ageing.h"

namespace triplepoint::study {

/// Wear of a run's GPUs by the library's constants; nothing without a library, or where the run
/// does not know power and heat.
std::optional<metrics::RunWear> run_wear(const run::Run& run, const metrics::Metrics& metrics);

/// Columns of a results table that hold wear, and their cells; empty cells without it.
std::vector<std::string> wear_columns();
std::vector<std::string> wear_cells(const std::optional<metrics::RunWear>& wear);

}  // namespace triplepoint::study
