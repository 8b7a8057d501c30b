// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/telemetry/live/view.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// "690 W", "1.2 kW", "n/a" where there is nothing.
std::string watts_text(const std::optional<double>& watts);
/// "70/141 GB", "70 GB", "n/a".
std::string memory_text(const std::optional<double>& used_b, const std::optional<double>& all_b);
/// "2.0 GB/s", "310 kB/s".
std::string rate_text(const std::optional<double>& bytes_per_s);

/// The table of `triplepoint snapshot`: a row a GPU, then the node, then what went wrong.
std::string snapshot_table(const telemetry::Snapshot&, const Console&);

}  // namespace triplepoint::tui
