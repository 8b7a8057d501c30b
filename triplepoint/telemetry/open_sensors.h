// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

/// Opens what is there. A machine without any sensor still has /proc. The only error is a word in
/// `devices` that no GPU answers to. What has not answered after ten seconds, or when the program
/// is interrupted, is left out; Sensors::opening then has it as soon as it answers.
Result<Sensors> open_sensors(const SensorOptions&);

}  // namespace triplepoint::telemetry
