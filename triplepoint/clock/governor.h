// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

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
  friend bool operator==(const ClockChoice&, const ClockChoice&) = default;
};

/// Clocks a device may have: f_k = f_max - k clock_step, down to min_clock. AMD's fine-grained DPM
/// is the same with a small step.
int64_t steps_to_lowest_clock(const spec::GovernorCoefficients&, Hertz max_clock);
Hertz clock_at(const spec::GovernorCoefficients&, Hertz max_clock, int64_t steps_down);

/// What heat alone allows.
///
///   T <= target:           k = 0
///   target < T < slowdown: k = ceil(thermal_steps_per_kelvin (T - target))     software_thermal
///   slowdown <= T:         f <= f_max / 2                     hardware_thermal
///
/// A proportional controller: with a step worth s kelvins of steady die temperature, a die that
/// would settle E above its target settles E / (1 + s thermal_steps_per_kelvin) above it. A limit
/// that is absent does not act; no limit asks for less than min_clock.
/// Source: slope assumed, vendors say "clocks are lowered above", not how fast. Halving: NVML on HW
/// slowdown ("reducing the core clocks by a factor of 2 or more").
struct ThermalLimit {
  int64_t steps_down = 0;
  ClockEventReason reason = ClockEventReason::none;
};
ThermalLimit thermal_limit(const spec::GovernorCoefficients&, Hertz max_clock, Celsius die);

/// Highest clock at which a phase's mean power meets the cap and the die its temperature limits.
///
///   f = max { f_k <= f_thermal : P(f_k / f_max) <= regulation_share limit },  or else the lowest
///
/// power_at(clock ratio): mean Watts of the phase at that clock; must not fall with it. About
/// log2(clock steps) evaluations, one where the cap does not bind.
/// The reason is the one that binds: power where a higher clock would have been allowed by heat.
/// Holds for phases longer than power_window; shorter ones are averaged by the caller first.
/// Source: docs/models/clock.md.
template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients&, Hertz max_clock, Watts limit,
                         Celsius die, const PowerAt& power_at);

/// What an operator set beside the power limit, and where the search for the clock may begin.
struct ClockBounds {
  Watts limit;
  int64_t locked_steps = 0;  // below the maximum: no higher clock is asked for (nvidia-smi -lgc)
  // A guess of the answer, usually the last one: two evaluations where it still holds. Any guess
  // gives the same answer.
  std::optional<int64_t> guess;
};
/// The same among the clocks that are not above the lock. The reason of a clock that neither heat
/// nor power lowers further is application_clocks.
template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients&, Hertz max_clock, const ClockBounds&,
                         Celsius die, const PowerAt& power_at);
/// Steps below the maximum of the highest clock that is not above `lock`.
int64_t steps_to_clock(const spec::GovernorCoefficients&, Hertz max_clock, Hertz lock);

bool is_throttled(ClockEventReason);  // leaves out none, idle, application and display clocks
const char* name_of(ClockEventReason);

}  // namespace triplepoint::clock

#include "triplepoint/clock/governor_impl.h"
