// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/base/files.h"

#include "triplepoint/app/recording_request.h"
#include "triplepoint/telemetry/recorder/launch_environment.h"
#include "triplepoint/telemetry/recorder/recorder.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::app {

/// Where a recording goes: as asked, else by the launch or the date; of several nodes each has its
/// own file.
Path recording_file(const RecordingRequest&, const telemetry::LaunchEnvironment&);

/// The request in the recorder's words. `marks`: folder in which the program leaves its marks.
telemetry::RecordingPlan recording_plan(const RecordingRequest&,
                                        const telemetry::LaunchEnvironment&, const Path& target,
                                        const Path& marks,
                                        const std::shared_ptr<telemetry::SensorOpening>& opening);

}  // namespace triplepoint::app
