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
  // Two evaluations confirm a guess: it meets the cap, the next higher clock does not. If it fails,
  // it has halved the range.
  if (guess <= first || guess > last) return fewest_steps_down(first, last, meets);
  if (!meets(guess)) return guess == last ? last : fewest_steps_down(guess + 1, last, meets);
  return meets(guess - 1) ? fewest_steps_down(first, guess - 1, meets) : guess;
}

template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock,
                         const ClockBounds& bounds, const PowerAt& power_at) {
  const int64_t last = steps_to_lowest_clock(governor, max_clock);
  const Watts cap = governor.regulation_share * bounds.limit;
  const int64_t down = fewest_steps_down(
      bounds.locked_steps, last, bounds.guess.value_or(bounds.locked_steps), [&](int64_t steps) {
        return power_at(clock_at(governor, max_clock, steps) / max_clock) <= cap;
      });
  ClockEventReason reason = ClockEventReason::none;
  if (bounds.locked_steps > 0) reason = ClockEventReason::application_clocks;
  if (down > bounds.locked_steps) reason = ClockEventReason::software_power_cap;
  return {.clock = clock_at(governor, max_clock, down), .reason = reason};
}

template <class PowerAt>
ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock, Watts limit,
                         const PowerAt& power_at) {
  return choose_clock(governor, max_clock,
                      ClockBounds{.limit = limit, .locked_steps = 0, .guess = {}}, power_at);
}

template <class PowerAt>
double ceiling_for(double first, double last, Watts allowed, const PowerAt& power_at) {
  constexpr double ceiling_tolerance = 1e-3;  // clock steps
  constexpr int most_evaluations = 40;
  const auto excess = [&](double steps) { return (power_at(steps) - allowed) / unit::W; };
  double low = first, high = last;
  double over = excess(low);
  if (over <= 0) return low;
  double under = excess(high);
  if (under > 0) return high;
  int side = 0;  // which end stayed last time: its weight is halved, or it would stay for ever
  for (int i = 0; i < most_evaluations && high - low > ceiling_tolerance; ++i) {
    double middle = (low * under - high * over) / (under - over);
    if (!(middle > low && middle < high)) middle = 0.5 * (low + high);
    const double here = excess(middle);
    if (here == 0) return middle;
    if (here > 0) {
      low = middle;
      over = here;
      if (side == 1) under /= 2;
      side = 1;
    } else {
      high = middle;
      under = here;
      if (side == -1) over /= 2;
      side = -1;
    }
  }
  return high;
}

}  // namespace triplepoint::clock
