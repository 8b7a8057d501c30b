// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/app/recording.h"
#include "triplepoint/flags/arguments.h"

namespace triplepoint::app {

/// The flags that say what is measured: --devices, --gpm, --node-power-command.
class SensorFlags {
 public:
  flags::Arguments arguments();
  telemetry::SensorOptions options() const;

 private:
  std::vector<std::string> devices_;
  std::optional<std::string> node_power_command_;
  bool gpm_ = false;
};

/// What a recording is asked besides the program and the file.
class RecordFlags {
 public:
  flags::Arguments arguments();
  /// Without command and output.
  Result<RecordingRequest> request() const;

 private:
  RecordingRequest request_;
  std::optional<std::string> job_file_;
  SensorFlags sensors_;
};

}  // namespace triplepoint::app
