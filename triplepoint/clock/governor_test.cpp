// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/clock/governor.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace triplepoint::clock {
namespace {

using doctest::Approx;

constexpr Hertz max_clock = 1980 * unit::MHz;

spec::GovernorCoefficients h100_like() {
  return {.clock_step = 15 * unit::MHz,
          .min_clock = 345 * unit::MHz,
          .power_time_constant = 25 * unit::ms,
          .target_temperature = Celsius(87),
          .slowdown_temperature = Celsius(89),
          .thermal_steps_per_kelvin = 2,
          .shutdown_temperature = Celsius(92),
          .regulation_share = 1};
}

/// A load of `watts` at full clock whose power goes with the square of the clock over a floor.
auto load_of(double watts) {
  return [watts](double ratio) { return (150 + (watts - 150) * ratio * ratio) * unit::W; };
}

int64_t steps_below_maximum(const ClockChoice& choice) {
  return static_cast<int64_t>((max_clock - choice.clock) / (15 * unit::MHz) + 0.5);
}

TEST_CASE("a load under its cap runs at full clock without a throttle reason") {
  const ClockChoice choice = choose_clock(h100_like(), max_clock, 700 * unit::W, load_of(650));
  CHECK(choice == ClockChoice{max_clock, ClockEventReason::none});
}

TEST_CASE("the cap is met, and one clock step more would exceed it") {
  for (double watts : {701.0, 720.0, 860.0, 1000.0, 2000.0}) {
    const auto load = load_of(watts);
    const ClockChoice choice = choose_clock(h100_like(), max_clock, 700 * unit::W, load);
    CHECK(choice.reason == ClockEventReason::software_power_cap);
    CHECK(load(choice.clock / max_clock) <= 700 * unit::W);
    CHECK(load((choice.clock + 15 * unit::MHz) / max_clock) > 700 * unit::W);
  }
}

TEST_CASE("bisection finds what trying every step finds") {
  for (double watts = 650; watts < 1200; watts += 13.7) {
    const auto load = load_of(watts);
    int64_t steps = 0;
    while (load(clock_at(h100_like(), max_clock, steps) / max_clock) > 700 * unit::W)
      ++steps;
    CHECK(steps_below_maximum(choose_clock(h100_like(), max_clock, 700 * unit::W, load)) == steps);
  }
}

TEST_CASE("a lower cap never raises the clock") {
  Hertz before = max_clock;
  for (double cap = 1000; cap > 100; cap -= 7) {
    const Hertz now = choose_clock(h100_like(), max_clock, cap * unit::W, load_of(950)).clock;
    CHECK(now <= before);
    before = now;
  }
}

TEST_CASE("a cap below what the lowest clock draws gives the lowest clock") {
  const ClockChoice choice = choose_clock(h100_like(), max_clock, 100 * unit::W, load_of(900));
  CHECK(choice.clock / unit::MHz == Approx(345));
  CHECK(choice.reason == ClockEventReason::software_power_cap);
}

TEST_CASE("clocks are a whole number of steps below the maximum and never below the lowest") {
  auto governor = h100_like();
  governor.min_clock = 350 * unit::MHz;  // not on the grid
  CHECK(clock_at(governor, max_clock, steps_to_lowest_clock(governor, max_clock)) / unit::MHz ==
        Approx(360));
  CHECK(steps_to_lowest_clock(h100_like(), max_clock) == (1980 - 345) / 15);
}

TEST_CASE("the time to the cap is when the filtered power reaches it") {
  const spec::GovernorCoefficients governor = h100_like();
  for (const double watts : {701.0, 800.0, 1100.0, 3000.0})
    for (const double level : {100.0, 450.0, 699.0}) {
      const Seconds time =
          time_to_cap(governor, level * unit::W, watts * unit::W, 700 * unit::W, 10 * unit::s);
      CHECK(filtered_power(governor, level * unit::W, watts * unit::W, time) / unit::W ==
            Approx(700));
    }
  const auto time = [&](double level, double watts) {
    return time_to_cap(governor, level * unit::W, watts * unit::W, 700 * unit::W, 1 * unit::s);
  };
  CHECK(time(100, 700) == 1 * unit::s);
  CHECK(time(700, 900) == Seconds());
  CHECK(time(100, 1100) < time(100, 900));
  CHECK(time(400, 900) < time(100, 900));
}

TEST_CASE("a die is held at its target, or where none is known at its slowdown temperature") {
  auto governor = h100_like();
  CHECK(held_temperature(governor) == Celsius(87));
  CHECK(heat_reason(governor, Celsius(87)) == ClockEventReason::software_thermal);
  CHECK(heat_reason(governor, Celsius(89)) == ClockEventReason::hardware_thermal);
  governor.target_temperature.reset();
  CHECK(held_temperature(governor) == Celsius(89));
  CHECK(heat_reason(governor, Celsius(89)) == ClockEventReason::hardware_thermal);
  governor.slowdown_temperature.reset();
  CHECK(!held_temperature(governor));
  CHECK(next_heat_ceiling(governor, max_clock, 0, 0, Celsius(150)) == 0);
}

/// A die whose steady temperature falls by so much per clock step, and which goes there by half of
/// the way between two looks.
double ceiling_after(int looks, double kelvins_per_step, double uncapped_c, double present_steps) {
  double ceiling = 0, die = 60;
  for (int i = 0; i < looks; ++i) {
    const double steps = std::max(ceiling, present_steps);
    die += 0.5 * (uncapped_c - kelvins_per_step * (steps - present_steps) - die);
    ceiling = next_heat_ceiling(h100_like(), max_clock, ceiling, present_steps, Celsius(die));
  }
  return ceiling;
}

TEST_CASE(
    "the controller finds the clock that holds the target, from any clock and for any slope") {
  for (const double slope : {0.1, 0.2, 0.4, 1.0})
    for (const double uncapped : {88.0, 91.0, 99.0})
      for (const double present : {0.0, 20.0}) {
        const double needed = present + (uncapped - 87) / slope;
        CHECK(ceiling_after(600, slope, uncapped, present) ==
              Approx(std::min(needed, 109.0)).epsilon(0.001));
      }
}

TEST_CASE("below the target heat holds nothing, and a ceiling lets go") {
  CHECK(next_heat_ceiling(h100_like(), max_clock, 0, 30, Celsius(87)) == 0);
  CHECK(next_heat_ceiling(h100_like(), max_clock, 1, 30, Celsius(80)) == 0);
  CHECK(next_heat_ceiling(h100_like(), max_clock, 40, 40, Celsius(80)) == 38);
}

TEST_CASE("at its slowdown temperature a die runs at half of its clock or less, at once") {
  CHECK(next_heat_ceiling(h100_like(), max_clock, 3, 3, Celsius(89)) == 66);
  CHECK(next_heat_ceiling(h100_like(), max_clock, 90, 90, Celsius(89)) == 94);
}

TEST_CASE("a ceiling is the least that keeps the allowed power") {
  int evaluations = 0;
  const auto power = [&](double steps) {
    ++evaluations;
    return (900 - 6 * steps + 0.02 * steps * steps) * unit::W;
  };
  CHECK(ceiling_for(0, 100, 900 * unit::W, power) == 0);
  CHECK(ceiling_for(0, 100, 100 * unit::W, power) == 100);
  evaluations = 0;
  const double steps = ceiling_for(0, 100, 700 * unit::W, power);
  CHECK(power(steps) / unit::W == Approx(700).epsilon(1e-4));
  CHECK(evaluations < 25);
}

TEST_CASE("the regulated mean may differ from the limit by a share") {
  auto governor = h100_like();
  governor.regulation_share = 0.9;
  const auto load = load_of(900);
  CHECK(choose_clock(governor, max_clock, 700 * unit::W, load) ==
        choose_clock(h100_like(), max_clock, 630 * unit::W, load));
  CHECK(limit_for_cap(governor, power_cap(governor, 700 * unit::W)) / unit::W == Approx(700));
}

TEST_CASE("idle and application clocks are not throttling") {
  using enum ClockEventReason;
  for (ClockEventReason reason : {none, gpu_idle, application_clocks, display_clocks})
    CHECK_FALSE(is_throttled(reason));
  for (ClockEventReason reason : {software_power_cap, hardware_slowdown, sync_boost,
                                  software_thermal, hardware_thermal, hardware_power_brake})
    CHECK(is_throttled(reason));
}

TEST_CASE("reasons keep NVML's bits") {
  using enum ClockEventReason;
  uint32_t bit = 0;
  for (ClockEventReason reason :
       {none, gpu_idle, application_clocks, software_power_cap, hardware_slowdown, sync_boost,
        software_thermal, hardware_thermal, hardware_power_brake, display_clocks}) {
    CHECK(static_cast<uint32_t>(reason) == bit);
    bit = bit == 0 ? 1 : bit * 2;
  }
}

TEST_CASE("any guess finds the same clock") {
  for (double watts = 600; watts < 2400; watts += 97) {
    const auto load = load_of(watts);
    const ClockChoice plain = choose_clock(h100_like(), max_clock, 700 * unit::W, load);
    for (int64_t guess = -3; guess < 120; ++guess)
      CHECK(choose_clock(h100_like(), max_clock,
                         ClockBounds{.limit = 700 * unit::W, .locked_steps = 0, .guess = guess},
                         load) == plain);
  }
}

TEST_CASE("a locked clock holds where power and heat would allow more, and is no throttling") {
  const int64_t lock = steps_to_clock(h100_like(), max_clock, 1500 * unit::MHz);
  CHECK(clock_at(h100_like(), max_clock, lock) / unit::MHz == Approx(1500));
  const ClockBounds bounds{.limit = 700 * unit::W, .locked_steps = lock};
  const ClockChoice held = choose_clock(h100_like(), max_clock, bounds, load_of(650));
  CHECK(held.clock / unit::MHz == Approx(1500));
  CHECK(held.reason == ClockEventReason::application_clocks);
  CHECK(!is_throttled(held.reason));
  const ClockChoice capped = choose_clock(h100_like(), max_clock, bounds, load_of(2000));
  CHECK(capped.clock < held.clock);
  CHECK(capped.reason == ClockEventReason::software_power_cap);
}

TEST_CASE("a lock between two clocks takes the lower one, and none below the lowest") {
  CHECK(clock_at(h100_like(), max_clock, steps_to_clock(h100_like(), max_clock, 1499 * unit::MHz)) /
            unit::MHz ==
        Approx(1485));
  CHECK(steps_to_clock(h100_like(), max_clock, 1 * unit::MHz) ==
        steps_to_lowest_clock(h100_like(), max_clock));
}

}  // namespace
}  // namespace triplepoint::clock
