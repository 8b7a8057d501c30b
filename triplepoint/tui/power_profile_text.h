// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/metrics/economics/ageing.h"
#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// "Wear: ..." in two lines.
std::string wear_text(const metrics::RunWear& wear);

/// Swing, ramps and peaks by level, and what smoothing would cost.
void print_power_profile(Console& console, const metrics::PowerProfile& profile);

}  // namespace triplepoint::tui
