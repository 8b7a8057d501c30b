// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/telemetry/open_sensors.h"
#include "triplepoint/telemetry/recorder/closing.h"

namespace triplepoint::app {

/// What to record, and how.
struct RecordingRequest {
  std::vector<std::string> command;
  std::optional<std::string> output;  // NAME.run; else by the launch or the date
  telemetry::StepWindow steps;
  std::optional<Seconds> interval;  // else as often as sensors update
  std::optional<spec::Job> job;     // what the command trains
  telemetry::SensorOptions sensors;
  bool quiet = false;
  bool strict = false;  // a recording that lacks something is a failure of a command that had none
};

}  // namespace triplepoint::app
