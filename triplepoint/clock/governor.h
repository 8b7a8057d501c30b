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

/// The mean power that the controller of a limit holds, regulation_share limit, and the limit under
/// which it holds `cap`. Source: docs/models/clock.md.
Watts power_cap(const spec::GovernorCoefficients&, Watts limit);
Watts limit_for_cap(const spec::GovernorCoefficients&, Watts cap);

/// Power as the controller of the power cap sees it, `time` after it saw `level`:
///
///   p' = (power - p) / power_time_constant
///
/// It lowers the clock once p is at the cap. Source: a B300 under limits of 500 and 700 W, whose
/// load goes on and off (power_dvfs, lab/fit_power.py): docs/models/clock.md.
Watts filtered_power(const spec::GovernorCoefficients&, Watts level, Watts power, Seconds time);
/// How long a device that draws `power` keeps its clock, from `level` on; `longest` at most.
Seconds time_to_cap(const spec::GovernorCoefficients&, Watts level, Watts power, Watts cap,
                    Seconds longest);

/// The temperature that a device's controller holds its die at: the target, or where none is stated
/// the slowdown temperature. A device without either does not know heat.
std::optional<Celsius> held_temperature(const spec::GovernorCoefficients&);

/// Whom NVML would name for a clock that heat holds down: the software controller below the
/// slowdown temperature, the hardware above it or where there is no target.
ClockEventReason heat_reason(const spec::GovernorCoefficients&, Celsius die);

/// One look of the controller that holds a die at its temperature: it integrates.
///
///   h' = h + clamp(thermal_steps_per_kelvin (die - held), -most_steps_up, most_steps_down)
///
/// h: the ceiling, in clock steps below the maximum; a fraction is a mean over two neighbouring
/// clocks. It begins at the clock that the device runs at (`present_steps`) and ends where it
/// binds no more, so it never winds up. At the slowdown temperature the hardware takes over: half
/// of the maximum clock or less. Holds for looks of a second and more, in which the die's own
/// poles have followed the clock.
/// Source: that the clock falls in steps until the die stays at its target: nvidia-smi's
/// description of SW thermal slowdown. The pace is assumed: thermal_steps_per_kelvin
/// (data/calibrations/*/governor.toml), and at most 8 steps down and 2 up a look.
/// Halving: NVML on HW slowdown ("reducing the core clocks by a factor of 2 or more").
double next_heat_ceiling(const spec::GovernorCoefficients&, Hertz max_clock, double ceiling,
                         double present_steps, Celsius die);

/// The least ceiling at which a device draws no more than it may, in clock steps below the maximum;
/// the lowest clock where none does.
///
///   h = min { first <= h <= last :  power_at(h) <= allowed }
///
/// power_at(steps): mean power over a step of training, continuous and never rising. Regula falsi
/// (Illinois): some five evaluations.
double ceiling_for(double first, double last, Watts allowed, const auto& power_at);

/// Highest clock at which a phase's mean power meets the cap.
///
///   f = max { f_k : P(f_k / f_max) <= power_cap(limit) },  or else the lowest
///
/// power_at(clock ratio): mean Watts of the phase at that clock; must not fall with it. About
/// log2(clock steps) evaluations, one where the cap does not bind.
/// Holds where the power that the controller sees has come to rest (filtered_power).
/// Source: docs/models/clock.md.
ClockChoice choose_clock(const spec::GovernorCoefficients&, Hertz max_clock, Watts limit,
                         const auto& power_at);

/// What an operator set beside the power limit, and where the search for the clock may begin.
struct ClockBounds {
  Watts limit;
  int64_t locked_steps = 0;  // below the maximum: no higher clock is asked for (nvidia-smi -lgc)
  // A guess of the answer, usually the last one: two evaluations where it still holds. Any guess
  // gives the same answer.
  std::optional<int64_t> guess;
};
/// The same among the clocks that are not above the lock. The reason of a clock that power does not
/// lower further is application_clocks.
ClockChoice choose_clock(const spec::GovernorCoefficients&, Hertz max_clock, const ClockBounds&,
                         const auto& power_at);
/// Steps below the maximum of the highest clock that is not above `lock`.
int64_t steps_to_clock(const spec::GovernorCoefficients&, Hertz max_clock, Hertz lock);

bool is_throttled(ClockEventReason);  // leaves out none, idle, application and display clocks

// Below: the bodies of choose_clock.

/// Lowest number of steps below the maximum at which `meets(steps)` holds, or `last` if none does.
/// meets must not turn false again with more steps.
int64_t fewest_steps_down(int64_t first, int64_t last, const auto& meets) {
  if (first >= last || meets(first)) return first;  // most phases meet their cap: one evaluation
  int64_t fails = first, may = last;
  while (may - fails > 1) {
    const int64_t middle = fails + (may - fails) / 2;
    (meets(middle) ? may : fails) = middle;
  }
  return may;
}

/// The same, looked for around a guess first.
int64_t fewest_steps_down(int64_t first, int64_t last, int64_t guess, const auto& meets) {
  // Two evaluations confirm a guess: it meets the cap, the next higher clock does not. If it fails,
  // it has halved the range.
  if (guess <= first || guess > last) return fewest_steps_down(first, last, meets);
  if (!meets(guess)) return guess == last ? last : fewest_steps_down(guess + 1, last, meets);
  return meets(guess - 1) ? fewest_steps_down(first, guess - 1, meets) : guess;
}

ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock,
                         const ClockBounds& bounds, const auto& power_at) {
  const int64_t last = steps_to_lowest_clock(governor, max_clock);
  const Watts cap = power_cap(governor, bounds.limit);
  const int64_t down = fewest_steps_down(
      bounds.locked_steps, last, bounds.guess.value_or(bounds.locked_steps), [&](int64_t steps) {
        return power_at(clock_at(governor, max_clock, steps) / max_clock) <= cap;
      });
  ClockEventReason reason = ClockEventReason::none;
  if (bounds.locked_steps > 0) reason = ClockEventReason::application_clocks;
  if (down > bounds.locked_steps) reason = ClockEventReason::software_power_cap;
  return {.clock = clock_at(governor, max_clock, down), .reason = reason};
}

ClockChoice choose_clock(const spec::GovernorCoefficients& governor, Hertz max_clock, Watts limit,
                         const auto& power_at) {
  return choose_clock(governor, max_clock, ClockBounds{.limit = limit, .locked_steps = 0},
                      power_at);
}

double ceiling_for(double first, double last, Watts allowed, const auto& power_at) {
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
