// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/cli/console.h"

namespace triplepoint::cli {

/// One character per value, higher for larger ones, from the lowest to the highest of them; a space
/// where there is none. Eighths of blocks, or ASCII where the terminal knows nothing else.
std::string sparkline(const std::vector<std::optional<double>>& values, bool unicode);

/// Power, temperature, clock and throttling of a run over time, a line each: the mean of its
/// devices, with where it began and ended and the extremes. Nothing for a run without series.
std::string run_sparklines(const Console& console, const run::Run& run);

}  // namespace triplepoint::cli
