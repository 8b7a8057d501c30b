// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/thermal/ladder.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::thermal {
namespace {

using doctest::Approx;

spec::ThermalLadder three_poles() {
  return {.resistances = {KelvinsPerWatt(0.012), KelvinsPerWatt(0.010), KelvinsPerWatt(0.020)},
          .capacities = {JoulesPerKelvin(8), JoulesPerKelvin(120), JoulesPerKelvin(1500)}};
}

std::vector<PowerStretch> alternating(double on_ms, double off_ms) {
  return {{on_ms * unit::ms, 800 * unit::W}, {off_ms * unit::ms, 200 * unit::W}};
}

TEST_CASE("one pole is one mode of R and R C") {
  const spec::ThermalLadder one{.resistances = {KelvinsPerWatt(0.04)},
                                .capacities = {JoulesPerKelvin(500)}};
  const auto modes = modes_of(one);
  REQUIRE(modes.size() == 1);
  CHECK(modes[0].resistance / KelvinsPerWatt(1) == Approx(0.04));
  CHECK(modes[0].time_constant / unit::s == Approx(0.04 * 500));
}

TEST_CASE("the modes' resistances add up to the ladder's") {
  const double sum = sum_of(modes_of(three_poles()),
                            [](const Mode& mode) { return mode.resistance.in_base_units(); });
  CHECK(sum == Approx(0.042).epsilon(1e-12));
}

TEST_CASE("a step starts with the slope of power over the die's own capacity") {
  double slope = 0;
  for (const Mode& mode : modes_of(three_poles()))
    slope += (mode.resistance / mode.time_constant).in_base_units();
  CHECK(slope == Approx(1 / 8.0).epsilon(1e-10));
}

TEST_CASE("modes come slowest first") {
  const auto modes = modes_of(three_poles());
  REQUIRE(modes.size() == 3);
  CHECK(modes[0].time_constant > modes[1].time_constant);
  CHECK(modes[1].time_constant > modes[2].time_constant);
}

TEST_CASE("constant power has no peak above its mean") {
  const auto modes = modes_of(three_poles());
  const std::vector<PowerStretch> constant{{1 * unit::s, 600 * unit::W},
                                           {2 * unit::s, 600 * unit::W}};
  CHECK(periodic_peak_rise(modes, constant) / unit::K == Approx(0).epsilon(1e-12));
  CHECK(periodic_peak_rise(modes, {}) == Kelvins());
}

TEST_CASE("a slow pattern reaches the steady rise, a fast one is averaged out") {
  const auto modes = modes_of(three_poles());
  const double mean = 500;
  CHECK(periodic_peak_rise(modes, alternating(1e9, 1e9)) / unit::K == Approx((800 - mean) * 0.042));
  CHECK(periodic_peak_rise(modes, alternating(0.01, 0.01)) / unit::K < 0.01);
}

TEST_CASE("a longer period never lowers the peak") {
  const auto modes = modes_of(three_poles());
  Kelvins before;
  for (double milliseconds = 1; milliseconds < 1e6; milliseconds *= 2) {
    const Kelvins now = periodic_peak_rise(modes, alternating(milliseconds, milliseconds));
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("the periodic peak of one pole is its closed form") {
  const spec::ThermalLadder one{.resistances = {KelvinsPerWatt(0.04)},
                                .capacities = {JoulesPerKelvin(50)}};
  // Symmetric square wave of amplitude a about its mean: peak = a R tanh(t_half / 2 tau).
  for (double half : {0.1, 1.0, 10.0})
    CHECK(periodic_peak_rise(modes_of(one), alternating(1000 * half, 1000 * half)) / unit::K ==
          Approx(300 * 0.04 * std::tanh(half / (2 * 0.04 * 50))));
}

TEST_CASE("where a pattern starts does not matter") {
  const auto modes = modes_of(three_poles());
  const std::vector<PowerStretch> one{
      {1 * unit::s, 800 * unit::W}, {2 * unit::s, 100 * unit::W}, {3 * unit::s, 500 * unit::W}};
  const std::vector<PowerStretch> other{one[2], one[0], one[1]};
  CHECK(periodic_peak_rise(modes, one) / unit::K ==
        Approx(periodic_peak_rise(modes, other) / unit::K));
}

}  // namespace
}  // namespace triplepoint::thermal
