// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/clock/governor.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/expect.h"

namespace triplepoint::clock {
namespace {

// A division that should come out whole may fall a rounding error short.
constexpr double almost = 1e-9;

}  // namespace

int64_t steps_to_lowest_clock(const spec::GovernorCoefficients& governor, Hertz max_clock) {
  TPT_EXPECT(governor.clock_step > Hertz() && governor.min_clock <= max_clock);
  return static_cast<int64_t>((max_clock - governor.min_clock) / governor.clock_step + almost);
}

int64_t steps_to_clock(const spec::GovernorCoefficients& governor, Hertz max_clock, Hertz lock) {
  const double steps = std::ceil((max_clock - lock) / governor.clock_step - almost);
  return std::clamp<int64_t>(static_cast<int64_t>(steps), 0,
                             steps_to_lowest_clock(governor, max_clock));
}

Hertz clock_at(const spec::GovernorCoefficients& governor, Hertz max_clock, int64_t steps_down) {
  return max_clock - static_cast<double>(steps_down) * governor.clock_step;
}

ThermalLimit thermal_limit(const spec::GovernorCoefficients& governor, Hertz max_clock,
                           Celsius die) {
  const int64_t last = steps_to_lowest_clock(governor, max_clock);
  const auto steps = [&](double wanted) {
    return static_cast<int64_t>(std::min(std::ceil(wanted - almost), static_cast<double>(last)));
  };
  if (governor.slowdown_temperature && die >= *governor.slowdown_temperature)
    return {.steps_down = steps(0.5 * max_clock / governor.clock_step),
            .reason = ClockEventReason::hardware_thermal};
  if (governor.target_temperature && die > *governor.target_temperature)
    return {.steps_down = steps(governor.thermal_steps_per_kelvin *
                                ((die - *governor.target_temperature) / unit::K)),
            .reason = ClockEventReason::software_thermal};
  return {};
}

bool is_throttled(ClockEventReason reason) {
  switch (reason) {
    case ClockEventReason::none:
    case ClockEventReason::gpu_idle:
    case ClockEventReason::application_clocks:
    case ClockEventReason::display_clocks:
      return false;
    default:
      return true;
  }
}

const char* name_of(ClockEventReason reason) {
  switch (reason) {
    case ClockEventReason::none:
      return "none";
    case ClockEventReason::gpu_idle:
      return "gpu_idle";
    case ClockEventReason::application_clocks:
      return "application_clocks";
    case ClockEventReason::software_power_cap:
      return "software_power_cap";
    case ClockEventReason::hardware_slowdown:
      return "hardware_slowdown";
    case ClockEventReason::sync_boost:
      return "sync_boost";
    case ClockEventReason::software_thermal:
      return "software_thermal";
    case ClockEventReason::hardware_thermal:
      return "hardware_thermal";
    case ClockEventReason::hardware_power_brake:
      return "hardware_power_brake";
    case ClockEventReason::display_clocks:
      return "display_clocks";
  }
  return "none";
}

}  // namespace triplepoint::clock
