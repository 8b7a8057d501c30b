// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::host {

/// Power and energy of an HPE Cray node, ten times a second and with stamps of their own, from
/// /sys/cray/pm_counters. Null where that is not there. Signals that another sensor reads already
/// are left to it.
std::unique_ptr<Sensor> open_cray(const Path& sysfs, const std::vector<std::string>& read_already);

}  // namespace triplepoint::telemetry::host
