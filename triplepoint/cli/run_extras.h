// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/cli/console.h"
#include "triplepoint/metrics/economics/ageing.h"
#include "triplepoint/metrics/run/power_profile.h"

namespace triplepoint::cli {

/// Wear of a run's GPUs by the library's constants; nothing without a library, or where the run
/// does not know power and heat.
std::optional<metrics::RunWear> run_wear(const run::Run& run, const metrics::Metrics& metrics);

/// "Wear: ..." in two lines.
std::string wear_text(const metrics::RunWear& wear);

/// Columns of a results table that hold wear, and their cells; empty cells without it.
std::vector<std::string> wear_columns();
std::vector<std::string> wear_cells(const std::optional<metrics::RunWear>& wear);

/// Swing, ramps and peaks by level, and what smoothing would cost.
void print_power_profile(Console& console, const metrics::PowerProfile& profile);

}  // namespace triplepoint::cli
