// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/output_flags.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {

/// What `plan --clocks` was asked.
struct ClockRequest {
  metrics::EnergyScope scope = metrics::EnergyScope::site;
  double slowdown = 0;  // the point that is written may be so much slower
  FormatFlag format{FormatFlag::Csv::yes};
  std::optional<std::string> output;  // folder
  int threads = 1;
};

/// "2%" or "0.02".
Result<double> parse_slowdown(std::string_view text);

/// Clocks and power caps of each device of a job, from no slowdown on: the frontier, the stages
/// with their slack, and, in a folder, what an operator needs to set them.
Result<int> plan_the_clocks(tui::Console& console, const spec::Library& library,
                            const spec::Job& job, const ClockRequest& request);

}  // namespace triplepoint::cli
