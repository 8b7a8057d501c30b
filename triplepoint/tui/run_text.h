// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

#include "triplepoint/flags/job_results.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What `simulate` shows of a run: verdict and memory first, then speed, power, heat, clocks, what
/// stands out, and the stages. Of a job that does not fit, its memory.
void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics,
               const run::Run* fault_free = nullptr);

/// Power, temperature, clock and throttling of a run over time, a line each: the mean of its
/// devices, with where it began and ended and the extremes. Nothing for a run without series.
std::string run_sparklines(const Console& console, const run::Run& run);

/// What `simulate` prints of a job.
void print_results(Console&, const flags::JobResults&);

}  // namespace triplepoint::tui
