// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// Power, temperature, clock and throttling of a run over time, a line each: the mean of its
/// devices, with where it began and ended and the extremes. Nothing for a run without series.
std::string run_sparklines(const Console& console, const run::Run& run);

}  // namespace triplepoint::tui
