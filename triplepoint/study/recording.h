// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "triplepoint/study/recording_request.h"
#include "triplepoint/telemetry/recorder/launch_environment.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// Runs a command and records the node. Of several ranks on a node one records; the others run
/// their command. The exit code is the command's.
Result<int> record_command(tui::Console&, const RecordingRequest&);

}  // namespace triplepoint::study
