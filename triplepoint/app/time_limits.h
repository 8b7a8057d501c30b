// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/formats/job_scripts.h"

namespace triplepoint::app {

/// How long one run of a job may take: start-up, and its steps, warm-up included, as simulated with
/// a margin; in whole minutes.
struct RunTime {
  static constexpr Seconds start_up = 10 * unit::min;  // containers, data, communicators
  static constexpr double margin = 2;                  // profilers and slow machines
  static constexpr Seconds least_if_unsure = 1 * unit::h;
  static constexpr Seconds most = 8760 * unit::h;

  std::optional<Seconds> steps;  // nothing: the job cannot be simulated
  bool fits_memory = true;       // as simulated
  Seconds limit;                 // the plan's timeout, if it has one
};
RunTime run_time(const spec::Job& job, const formats::MeasurePlan& plan);

/// "59.9 s", "43.2 min", "12 h", "365 days".
std::string limit_text(Seconds time);

/// What is to be said of the limits of jobs before they are measured: which do not fit in memory in
/// the simulation, and whether the limit is shorter than the steps.
std::vector<std::string> limit_remarks(const std::vector<const spec::Job*>& jobs,
                                       const formats::MeasurePlan& plan);

}  // namespace triplepoint::app
