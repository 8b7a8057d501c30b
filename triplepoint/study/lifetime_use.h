// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/economics/lifetime.h"

namespace triplepoint::study {

/// Wear of a run's GPUs by the library's constants; nothing without a library, or where the run
/// does not know power and heat.
std::optional<metrics::RunLifetimeUse> run_lifetime_use(const run::Run& run,
                                                        const metrics::Metrics& metrics);

/// Columns of a results table that hold wear, and their cells; empty cells without it.
std::vector<std::string> lifetime_use_columns();
std::vector<std::string> lifetime_use_cells(const std::optional<metrics::RunLifetimeUse>& use);

}  // namespace triplepoint::study
