// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/telemetry/discover/discover.h"
#include "triplepoint/telemetry/doctor/doctor.h"
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

/// What is measured here, what is missing with the command that helps, and what one may trip over.
std::string examination_text(const telemetry::Examination&, const Console&);

/// Numbers of this node beside the library's.
std::string cluster_draft_text(const telemetry::ClusterDraft&, const Console&);

}  // namespace triplepoint::tui
