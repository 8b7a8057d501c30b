// SPDX-License-Identifier: Apache-2.0
// Clocks as firmware chooses them, on a ladder of equal steps below the highest.
//
// Power is held by choice: the highest clock whose mean power meets the cap (governor.h, a
// template because the caller's power function is in the inner loop of every simulation). Heat is
// held by control: an integrator lowers a ceiling in proportion to how far the die is over its
// target, fast down and slowly up. Past the slowdown temperature hardware halves the clock at once,
// whatever the integrator holds.
//
// Why the two differ: power answers to the clock within milliseconds, so a governor's result is
// what counts, not its way there; a die answers over seconds to minutes, so the way is visible in a
// transient. In a steady state the integrator is not run: its rest point is found directly
// (ceiling_for).
#include "triplepoint/clock/governor.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/result.h"

namespace triplepoint::clock {
namespace {

// A division that should come out whole may fall a rounding error short.
constexpr double step_tolerance = 1e-9;

}  // namespace

int64_t steps_to_lowest_clock(const spec::GovernorCoefficients& governor, Hertz max_clock) {
  TPT_EXPECT(governor.clock_step > Hertz() && governor.min_clock <= max_clock);
  return static_cast<int64_t>((max_clock - governor.min_clock) / governor.clock_step +
                              step_tolerance);
}

int64_t steps_to_clock(const spec::GovernorCoefficients& governor, Hertz max_clock, Hertz lock) {
  const double steps = std::ceil((max_clock - lock) / governor.clock_step - step_tolerance);
  return std::clamp<int64_t>(static_cast<int64_t>(steps), 0,
                             steps_to_lowest_clock(governor, max_clock));
}

Hertz clock_at(const spec::GovernorCoefficients& governor, Hertz max_clock, int64_t steps_down) {
  return max_clock - as_real(steps_down) * governor.clock_step;
}

Watts power_cap(const spec::GovernorCoefficients& governor, Watts limit) {
  return governor.regulation_share * limit;
}

Watts limit_for_cap(const spec::GovernorCoefficients& governor, Watts cap) {
  return cap / governor.regulation_share;
}

Watts filtered_power(const spec::GovernorCoefficients& governor, Watts level, Watts power,
                     Seconds time) {
  return power + std::exp(-time / governor.power_time_constant) * (level - power);
}

Seconds time_to_cap(const spec::GovernorCoefficients& governor, Watts level, Watts power, Watts cap,
                    Seconds longest) {
  if (power <= cap) return longest;
  if (level >= cap) return {};
  return std::min(longest,
                  governor.power_time_constant * std::log((power - level) / (power - cap)));
}

std::optional<Celsius> held_temperature(const spec::GovernorCoefficients& governor) {
  return governor.target_temperature ? governor.target_temperature : governor.slowdown_temperature;
}

ClockEventReason heat_reason(const spec::GovernorCoefficients& governor, Celsius die) {
  const bool hardware = !governor.target_temperature ||
                        (governor.slowdown_temperature && die >= *governor.slowdown_temperature);
  return hardware ? ClockEventReason::hardware_thermal : ClockEventReason::software_thermal;
}

double next_heat_ceiling(const spec::GovernorCoefficients& governor, Hertz max_clock,
                         double ceiling, double present_steps, Celsius die) {
  // Clocks fall faster than they come back, so that a die that was too hot is not so again at once.
  constexpr double most_steps_down = 8, most_steps_up = 2;
  const std::optional<Celsius> held = held_temperature(governor);
  if (!held || (ceiling == 0 && die <= *held)) return 0;
  const double over = governor.thermal_steps_per_kelvin * ((die - *held) / unit::K);
  // A ceiling that starts to bind starts at the present clock: from 0 it would integrate through
  // clocks that power forbids anyway, and the die would overheat meanwhile.
  double next = std::max(ceiling, ceiling == 0 ? present_steps : 0) +
                std::clamp(over, -most_steps_up, most_steps_down);
  // Where no target is stated the slowdown temperature itself is held, by the integrator; halving
  // there would act whenever the die reaches what it is held at.
  if (governor.target_temperature && governor.slowdown_temperature &&
      die >= *governor.slowdown_temperature)
    next = std::max(next, std::ceil(0.5 * max_clock / governor.clock_step));
  const auto last = as_real(steps_to_lowest_clock(governor, max_clock));
  return std::clamp(next, 0.0, last);
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

}  // namespace triplepoint::clock
