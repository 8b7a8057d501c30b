// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/trace/logs/training_log.h"

namespace triplepoint::trace {

/// Steps of a log that lie in a recording.
struct LaidSteps {
  std::vector<run::StepRecord> steps;  // Unix time
  int64_t zone_minutes = 0;            // the log's clock less UTC
  Seconds resolution;                  // of the stamps: the steps are placed within that
};

/// The logged steps between `begin` and `end` (Unix time; a step that reaches over these by no more
/// than `tolerance`, such as two sampling periods, ends there). A step ends when its line was
/// printed and takes as long as the line says; ends are moved by no more than the stamps'
/// resolution (1 s where all are whole seconds, else 50 ms), so that steps do not overlap. The
/// log's time zone is the offset of quarters of an hour, at most 14 h, with which most steps lie in
/// the recording.
///
/// The error is the reason alone: lines without a date, stamps and step times that do not agree,
/// other times than the recording's, or several zones that fit.
Result<LaidSteps> lay_steps(const TrainingLog&, Instant begin, Instant end, Seconds tolerance);

}  // namespace triplepoint::trace
