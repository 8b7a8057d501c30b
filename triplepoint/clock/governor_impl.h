// SPDX-License-Identifier: Apache-2.0
#pragma once

// The body of choose_clock; include governor.h.

namespace triplepoint::clock {

/// Lowest number of steps below the maximum at which `meets(steps)` holds, or `last` if none does.
/// meets must not turn false again with more steps.
template <class Meets>
int64_t fewest_steps_down(int64_t first, int64_t last, const Meets& meets) {
  if (first >= last || meets(first)) return first;  // most phases meet their cap: one evaluation
  int64_t fails = first, may = last;
  while (may - fails > 1) {
    const int64_t middle = fails + (may - fails) / 2;
    (meets(middle) ? may : fails) = middle;
  }
  return may;
}

template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock, Watts limit,
                         Celsius die, const PowerAt& power_at) {
  const ThermalLimit heat = thermal_limit(governor, max_clock, die);
  const int64_t last = steps_to_lowest_clock(governor, max_clock);
  const Watts cap = governor.regulation_share * limit;
  const int64_t down = fewest_steps_down(heat.steps_down, last, [&](int64_t steps) {
    return power_at(clock_at(governor, max_clock, steps) / max_clock) <= cap;
  });
  return {.clock = clock_at(governor, max_clock, down),
          .reason = down > heat.steps_down ? ClockEventReason::software_power_cap : heat.reason};
}

}  // namespace triplepoint::clock
