// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/thermal/chassis.h"

namespace triplepoint::thermal {
namespace {

using doctest::Approx;

spec::Chassis with_fans() {
  spec::Chassis chassis;
  chassis.inlet = Celsius(25);
  chassis.fan_target = Celsius(75);
  chassis.fan_floor = 0.3;
  chassis.fan_slew_per_s = 0.02;
  return chassis;
}

constexpr Seconds settling_time = 1e6 * unit::s;

TEST_CASE("fans that hold the target stay as they are") {
  CHECK(next_flow_share(with_fans(), 0.6, Celsius(75), 10 * unit::s) == Approx(0.6));
}

TEST_CASE("fans move no faster than their slew") {
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(95), 3 * unit::s) == Approx(0.5 + 3 * 0.02));
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(35), 3 * unit::s) == Approx(0.5 - 3 * 0.02));
}

TEST_CASE("fans stay between their floor and full speed") {
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(200), settling_time) == 1);
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(10), settling_time) == Approx(0.3));
}

TEST_CASE("a hotter device never gets less air") {
  double before = 0;
  for (double degrees = 0; degrees < 120; degrees += 0.5) {
    const double now = next_flow_share(with_fans(), 0.5, Celsius(degrees), 60 * unit::s);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("the controller settles where the hottest device is at its target") {
  for (double exponent : {0.3, 0.5, 1.0}) {
    // A device whose rise at full flow is 40 K and goes with flow^-exponent.
    double share = 1, degrees = 0;
    for (int i = 0; i < 200; ++i) {
      degrees = 25 + 40 * std::pow(share, -exponent);
      share = next_flow_share(with_fans(), share, Celsius(degrees), settling_time);
    }
    CHECK(degrees == Approx(75).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace triplepoint::thermal
