// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/metrics/economics/lifetime.h"
#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// "Lifetime use: ..." in two lines.
std::string lifetime_use_text(const metrics::RunLifetimeUse& use);

/// Swing, ramps and peaks by level, and what smoothing would cost.
void print_power_profile(Console& console, const metrics::PowerProfile& profile);

}  // namespace triplepoint::tui
