// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/sensor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::power {
namespace {

using doctest::Approx;

constexpr spec::SensorCoefficients part_time{.power_window = 25 * unit::ms,
                                             .power_period = 100 * unit::ms};

constexpr Watts before = 200 * unit::W, after = 700 * unit::W;

/// At 1,000 W at first, then at 850 W.
std::vector<PowerPiece> burst_of(double milliseconds, Watts second = 850 * unit::W) {
  return {{0.6 * milliseconds * unit::ms, 1000 * unit::W}, {0.4 * milliseconds * unit::ms, second}};
}
std::vector<PowerPiece> flat_burst_of(double milliseconds) {
  return burst_of(milliseconds, 1000 * unit::W);
}

/// Power of the burst at a moment after its begin.
Watts power_at(const std::vector<PowerPiece>& burst, Seconds at) {
  if (at < Seconds()) return before;
  if (at < burst[0].duration) return burst[0].power;
  return at < length_of(burst) ? burst[1].power : after;
}

/// The mean over the window that ends then, summed in small steps.
Watts summed_reading(const std::vector<PowerPiece>& burst, Seconds end) {
  constexpr int steps = 2500;
  Watts sum;
  for (int i = 0; i < steps; ++i)
    sum += power_at(burst, end - (i + 0.5) / steps * part_time.power_window);
  return sum / steps;
}

/// Of a sensor that sees `count` bursts beside a power that lasts.
Watts highest_of(const spec::SensorCoefficients& sensor, const std::vector<PowerPiece>& burst,
                 double count = 1) {
  std::vector<PowerPiece> readings = readings_of(sensor, before, burst, after);
  for (PowerPiece& reading : readings)
    reading.duration *= count;
  return highest_reading(sensor, readings, after);
}

TEST_CASE("a burst is seen above a level as long as readings of all moments say") {
  constexpr double part = 25.0 / 16;  // ms, for which one reading stands
  for (const double milliseconds : {3.0, 12.0, 25.0, 40.0, 150.0})
    for (const double watts : {705.0, 750.0, 820.0, 900.0, 990.0}) {
      const std::vector<PowerPiece> burst = burst_of(milliseconds);
      constexpr Seconds step = 0.1 * unit::ms;
      Seconds summed, above;
      for (Seconds end; end < length_of(burst) + part_time.power_window; end += step)
        if (summed_reading(burst, end + 0.5 * step) > watts * unit::W) summed += step;
      for (const PowerPiece& reading : readings_of(part_time, before, burst, after))
        if (reading.power > watts * unit::W) above += reading.duration;
      CAPTURE(milliseconds);
      CAPTURE(watts);
      CHECK(std::abs(above / unit::ms - summed / unit::ms) < part + 0.1);
    }
}

TEST_CASE("the highest reading is the median over sensors that begin at any moment") {
  const std::vector<PowerPiece> burst = burst_of(20);
  std::vector<double> highest;
  for (uint64_t sensor = 0; sensor < 2001; ++sensor) {
    double most = 700;
    for (uint64_t k = 0; k < 7; ++k) {
      const Seconds end = random_uniform({5, sensor}, k) * part_time.power_period;
      most = std::max(most, summed_reading(burst, end) / unit::W);
    }
    highest.push_back(most);
  }
  std::nth_element(highest.begin(), highest.begin() + 1000, highest.end());
  CHECK(highest_of(part_time, burst, 7) / unit::W == Approx(highest[1000]).epsilon(0.01));
}

TEST_CASE("more bursts and longer ones raise the highest reading, up to the burst's power") {
  Watts fewer;
  for (const double count : {3.0, 8.0, 24.0, 256.0}) {
    const Watts now = highest_of(part_time, burst_of(22), count);
    CHECK(now > fewer);
    fewer = now;
  }
  for (const double milliseconds : {5.0, 15.0, 25.0, 60.0, 200.0}) {
    const Watts now = highest_of(part_time, burst_of(milliseconds));
    CHECK(now >= 700 * unit::W);
    CHECK(now <= 1000 * unit::W);
  }
  CHECK(highest_of(part_time, flat_burst_of(200)) / unit::W == Approx(1000));
}

TEST_CASE("a sensor that looks all the time sees the whole of a burst as long as its window") {
  const spec::SensorCoefficients whole{.power_window = 20 * unit::ms,
                                       .power_period = 20 * unit::ms};
  CHECK(highest_of(whole, flat_burst_of(40)) / unit::W == Approx(1000));
  CHECK(highest_of(whole, burst_of(0)) == after);
}

TEST_CASE("without bursts the sensor shows what lasts") {
  CHECK(highest_reading(part_time, {}, 432 * unit::W) == 432 * unit::W);
}

}  // namespace
}  // namespace triplepoint::power
