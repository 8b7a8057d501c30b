// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/plan_outcome.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {

/// What `plan --clocks` was asked.
struct ClockRequest {
  double slowdown = 0;  // the point that is written may be so much slower
  std::string format = "table";
  std::optional<std::string> output;  // folder
  int threads = 1;
};

/// "2%" or "0.02".
Result<double> parse_slowdown(std::string_view text);

/// Clocks and power caps of each device of a job, from no slowdown on: the frontier, the stages
/// with their slack, and, in a folder, what an operator needs to set them.
Result<int> plan_the_clocks(tui::Console& console, const spec::Library& library,
                            const spec::Job& job, const ClockRequest& request);

/// Prints the ranking, below it the sentences and the front; `explain`: two plans beside each
/// other.
Result<void> print_outcome(tui::Console& console, const spec::Library& library,
                           const PlanOutcome& outcome, const std::vector<std::string>& sentences,
                           const FormatFlag& format, const std::optional<std::string>& explain);

}  // namespace triplepoint::cli
