// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What `simulate` shows of a run: verdict and memory first, then speed, power, heat, clocks, and
/// the stages. Of a job that does not fit, its memory. `step_time`: between what the step time
/// lies.
void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics,
               const std::optional<metrics::Interval>& step_time);

/// "80 %: 31.6-37.4".
std::string interval_text(const metrics::Interval&);

}  // namespace triplepoint::tui
