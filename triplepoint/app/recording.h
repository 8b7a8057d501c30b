// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/app/recording_request.h"
#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::app {

/// How a recorded command ended.
struct RecordedCommand {
  int code = 0;         // its exit code
  std::string summary;  // of the recording, for people; empty where another rank records
};

/// Runs a command and records the node. Of several ranks on a node one records; the others run
/// their command.
Result<RecordedCommand> record_command(const Watch&, const RecordingRequest&);

}  // namespace triplepoint::app
