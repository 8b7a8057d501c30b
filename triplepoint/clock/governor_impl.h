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

/// The same, looked for around a guess first.
template <class Meets>
int64_t fewest_steps_down(int64_t first, int64_t last, int64_t guess, const Meets& meets) {
  if (guess <= first || guess > last) return fewest_steps_down(first, last, meets);
  if (!meets(guess)) return guess == last ? last : fewest_steps_down(guess + 1, last, meets);
  return meets(guess - 1) ? fewest_steps_down(first, guess - 1, meets) : guess;
}

template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock,
                         const ClockBounds& bounds, Celsius die, const PowerAt& power_at) {
  const ThermalLimit heat = thermal_limit(governor, max_clock, die);
  const int64_t last = steps_to_lowest_clock(governor, max_clock);
  const int64_t allowed =
      heat.steps_down > bounds.locked_steps ? heat.steps_down : bounds.locked_steps;
  const Watts cap = governor.regulation_share * bounds.limit;
  const int64_t down =
      fewest_steps_down(allowed, last, bounds.guess.value_or(allowed), [&](int64_t steps) {
        return power_at(clock_at(governor, max_clock, steps) / max_clock) <= cap;
      });
  ClockEventReason reason = heat.reason;
  if (bounds.locked_steps > heat.steps_down) reason = ClockEventReason::application_clocks;
  if (down > allowed) reason = ClockEventReason::software_power_cap;
  return {.clock = clock_at(governor, max_clock, down), .reason = reason};
}

template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock, Watts limit,
                         Celsius die, const PowerAt& power_at) {
  return choose_clock(governor, max_clock,
                      ClockBounds{.limit = limit, .locked_steps = 0, .guess = {}}, die, power_at);
}

}  // namespace triplepoint::clock
