// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "triplepoint/base/units.h"
#include "triplepoint/spec/gpu.h"

namespace triplepoint::clock {

/// NVML's clock-event reasons, by its bit values. Source: nvml.h, nvmlClocksEventReason*.
enum class ClockEventReason : uint32_t {
  none = 0,
  gpu_idle = 1,
  application_clocks = 2,
  software_power_cap = 4,
  hardware_slowdown = 8,
  sync_boost = 16,
  software_thermal = 32,
  hardware_thermal = 64,
  hardware_power_brake = 128,
  display_clocks = 256
};

struct ClockChoice {
  Hertz clock;
  ClockEventReason reason = ClockEventReason::none;
};

/// Highest clock step at which the phase's mean power meets the cap and the die stays under its target.
///
///   f = max { f_k <= f_max : P(f_k) <= regulation_share * limit },  f_k = f_max - k * clock_step >= min_clock
///
/// power_at(f/f_max) must not fall with f. Above target_temperature the clock goes down by
/// (T - target) * steps_per_kelvin (1 step / K); at slowdown_temperature to half of max (hardware_thermal).
/// Holds for phases longer than the power window; shorter ones are averaged by the caller.
/// Source: docs/models/clock.md.
template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients&, Hertz max_clock, Watts limit, Celsius die,
                         const PowerAt& power_at);

bool is_throttled(ClockEventReason);  // leaves out none, idle, application and display clocks
const char* name_of(ClockEventReason);

}  // namespace triplepoint::clock

#include "triplepoint/clock/governor_impl.h"
