// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/clock/governor.h"

#include <string>
#include <utility>

#include <doctest/doctest.h>

namespace triplepoint::clock {
namespace {

using doctest::Approx;

constexpr Hertz max_clock = 1980 * unit::MHz;
constexpr Celsius cool{60};

spec::GovernorCoefficients h100_like() {
  return {.clock_step = 15 * unit::MHz,
          .min_clock = 345 * unit::MHz,
          .power_window = 50 * unit::ms,
          .target_temperature = Celsius(87),
          .slowdown_temperature = Celsius(89),
          .thermal_steps_per_kelvin = 4,
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

TEST_CASE("a load under its cap runs at full clock, and nobody is to blame") {
  const ClockChoice choice =
      choose_clock(h100_like(), max_clock, 700 * unit::W, cool, load_of(650));
  CHECK(choice == ClockChoice{max_clock, ClockEventReason::none});
}

TEST_CASE("the cap is met, and one clock step more would exceed it") {
  for (double watts : {701.0, 720.0, 860.0, 1000.0, 2000.0}) {
    const auto load = load_of(watts);
    const ClockChoice choice = choose_clock(h100_like(), max_clock, 700 * unit::W, cool, load);
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
    CHECK(steps_below_maximum(choose_clock(h100_like(), max_clock, 700 * unit::W, cool, load)) ==
          steps);
  }
}

TEST_CASE("a lower cap never raises the clock") {
  Hertz before = max_clock;
  for (double cap = 1000; cap > 100; cap -= 7) {
    const Hertz now = choose_clock(h100_like(), max_clock, cap * unit::W, cool, load_of(950)).clock;
    CHECK(now <= before);
    before = now;
  }
}

TEST_CASE("a cap below what the lowest clock draws gives the lowest clock") {
  const ClockChoice choice =
      choose_clock(h100_like(), max_clock, 100 * unit::W, cool, load_of(900));
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

TEST_CASE("a hotter die never gets a higher clock") {
  Hertz before = max_clock;
  for (double degrees = 40; degrees < 100; degrees += 0.25) {
    const Hertz now =
        choose_clock(h100_like(), max_clock, 700 * unit::W, Celsius(degrees), load_of(800)).clock;
    CHECK(now <= before);
    before = now;
  }
}

TEST_CASE("above its target a die loses steps in proportion, and heat is to blame") {
  const auto load = load_of(500);
  const auto at = [&](double degrees) {
    return choose_clock(h100_like(), max_clock, 700 * unit::W, Celsius(degrees), load);
  };
  CHECK(at(87) == ClockChoice{max_clock, ClockEventReason::none});
  for (double over : {0.25, 1.0, 1.75}) {
    CHECK(steps_below_maximum(at(87 + over)) == static_cast<int64_t>(4 * over));
    CHECK(at(87 + over).reason == ClockEventReason::software_thermal);
  }
}

TEST_CASE("at its slowdown temperature a die runs at half of its clock or less") {
  const ClockChoice choice =
      choose_clock(h100_like(), max_clock, 700 * unit::W, Celsius(89), load_of(500));
  CHECK(choice.clock <= 0.5 * max_clock);
  CHECK(choice.clock + 15 * unit::MHz > 0.5 * max_clock);
  CHECK(choice.reason == ClockEventReason::hardware_thermal);
}

TEST_CASE("the reason is the limit that binds") {
  const auto reason = [](double degrees, double watts) {
    return choose_clock(h100_like(), max_clock, 700 * unit::W, Celsius(degrees), load_of(watts))
        .reason;
  };
  CHECK(reason(87.5, 1000) == ClockEventReason::software_power_cap);  // heat alone would allow more
  CHECK(reason(87.5, 650) == ClockEventReason::software_thermal);
}

TEST_CASE("a governor without temperature limits does not know heat") {
  auto governor = h100_like();
  governor.target_temperature.reset();
  governor.slowdown_temperature.reset();
  CHECK(choose_clock(governor, max_clock, 700 * unit::W, Celsius(150), load_of(600)).clock ==
        max_clock);
}

TEST_CASE("the regulated mean may differ from the limit by a share") {
  auto governor = h100_like();
  governor.regulation_share = 0.9;
  const auto load = load_of(900);
  CHECK(choose_clock(governor, max_clock, 700 * unit::W, cool, load) ==
        choose_clock(h100_like(), max_clock, 630 * unit::W, cool, load));
}

TEST_CASE("idle and clocks that somebody asked for are no throttling") {
  using enum ClockEventReason;
  for (ClockEventReason reason : {none, gpu_idle, application_clocks, display_clocks})
    CHECK_FALSE(is_throttled(reason));
  for (ClockEventReason reason : {software_power_cap, hardware_slowdown, sync_boost,
                                  software_thermal, hardware_thermal, hardware_power_brake})
    CHECK(is_throttled(reason));
}

TEST_CASE("reasons keep NVML's bits and our words") {
  using enum ClockEventReason;
  const std::pair<ClockEventReason, std::string> words[] = {
      {none, "none"},
      {gpu_idle, "gpu_idle"},
      {application_clocks, "application_clocks"},
      {software_power_cap, "software_power_cap"},
      {hardware_slowdown, "hardware_slowdown"},
      {sync_boost, "sync_boost"},
      {software_thermal, "software_thermal"},
      {hardware_thermal, "hardware_thermal"},
      {hardware_power_brake, "hardware_power_brake"},
      {display_clocks, "display_clocks"}};
  uint32_t bit = 0;
  for (const auto& [reason, word] : words) {
    CHECK(std::string(name_of(reason)) == word);
    CHECK(static_cast<uint32_t>(reason) == bit);
    bit = bit == 0 ? 1 : bit * 2;
  }
}

TEST_CASE("any guess finds the same clock") {
  for (double watts = 600; watts < 2400; watts += 97) {
    const auto load = load_of(watts);
    const ClockChoice plain = choose_clock(h100_like(), max_clock, 700 * unit::W, cool, load);
    for (int64_t guess = -3; guess < 120; ++guess)
      CHECK(choose_clock(h100_like(), max_clock,
                         ClockBounds{.limit = 700 * unit::W, .locked_steps = 0, .guess = guess},
                         cool, load) == plain);
  }
}

TEST_CASE("a locked clock holds where power and heat would allow more, and is no throttling") {
  const int64_t lock = steps_to_clock(h100_like(), max_clock, 1500 * unit::MHz);
  CHECK(clock_at(h100_like(), max_clock, lock) / unit::MHz == Approx(1500));
  const ClockBounds bounds{.limit = 700 * unit::W, .locked_steps = lock, .guess = {}};
  const ClockChoice held = choose_clock(h100_like(), max_clock, bounds, cool, load_of(650));
  CHECK(held.clock / unit::MHz == Approx(1500));
  CHECK(held.reason == ClockEventReason::application_clocks);
  CHECK(!is_throttled(held.reason));
  const ClockChoice capped = choose_clock(h100_like(), max_clock, bounds, cool, load_of(2000));
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
