// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/sensor.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry {

int64_t monotonic_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

namespace {

template <class Text>
void replace_from(const char* variable, Text& text) {
  if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0')
    text = value;
}

// Without nvidia-persistenced, a driver takes seconds to load its state.
constexpr Seconds patience = 10 * unit::s;

}  // namespace

SensorPaths sensor_paths_from_environment() {
  SensorPaths paths;
  replace_from("TRIPLEPOINT_NVML", paths.nvml);
  replace_from("TRIPLEPOINT_SYSFS", paths.sysfs);
  replace_from("TRIPLEPOINT_PROC", paths.proc);
  replace_from("TRIPLEPOINT_DEV", paths.dev);
  replace_from("TRIPLEPOINT_IPMITOOL", paths.ipmitool);
  return paths;
}

Result<Sensors> open_sensors(const SensorOptions& options) {
  const auto opening = std::make_shared<SensorOpening>(options);
  opening->wait(patience, interrupted);
  if (const auto unknown = opening->unknown_device()) return error(unknown->what);
  Sensors sensors;
  for (Sensors& part : opening->take())
    add_sensors(sensors, std::move(part));
  if (!opening->is_complete()) sensors.opening = opening;
  return sensors;
}

}  // namespace triplepoint::telemetry
