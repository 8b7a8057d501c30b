// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/run.h"

#include "triplepoint/cli/console.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::cli {

/// What `simulate` shows of a run: verdict and memory first, then speed, power, heat, clocks, and
/// the stages. Of a job that does not fit, its memory.
void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics);

}  // namespace triplepoint::cli
