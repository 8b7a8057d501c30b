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
constexpr Watts any = 1e-3 * unit::W;

/// At 1,000 W at first, then at 850 W.
Burst burst_of(double milliseconds) {
  return {.before = 200 * unit::W,
          .pieces = {{0.6 * milliseconds * unit::ms, 1000 * unit::W},
                     {0.4 * milliseconds * unit::ms, 850 * unit::W}},
          .after = 700 * unit::W,
          .count = 1};
}

Burst flat(Burst burst) {
  for (PowerPiece& piece : burst.pieces)
    piece.power = 1000 * unit::W;
  return burst;
}

Seconds length_of(const Burst& burst) {
  return burst.pieces[0].duration + burst.pieces[1].duration;
}

/// Power of the burst at a moment after its begin.
Watts power_at(const Burst& burst, Seconds at) {
  if (at < Seconds()) return burst.before;
  if (at < burst.pieces[0].duration) return burst.pieces[0].power;
  return at < length_of(burst) ? burst.pieces[1].power : burst.after;
}

/// The mean over the window that ends then, summed in small steps.
Watts summed_reading(const Burst& burst, Seconds end) {
  constexpr int steps = 2500;
  Watts sum;
  for (int i = 0; i < steps; ++i)
    sum += power_at(burst, end - (i + 0.5) / steps * part_time.power_window);
  return sum / steps;
}

/// Of a sensor that sees one burst beside a power that lasts.
Watts highest_of(const spec::SensorCoefficients& sensor, const Burst& burst, Watts floor) {
  return highest_reading(sensor, std::vector{BurstReadings(sensor, burst)}, floor);
}

TEST_CASE("a burst is seen above a level as long as readings of all moments say") {
  for (const double milliseconds : {3.0, 12.0, 25.0, 40.0, 150.0})
    for (const double watts : {705.0, 750.0, 820.0, 900.0, 990.0}) {
      const Burst burst = burst_of(milliseconds);
      constexpr Seconds step = 0.1 * unit::ms;
      Seconds above;
      for (Seconds end; end < length_of(burst) + part_time.power_window; end += step)
        if (summed_reading(burst, end + 0.5 * step) > watts * unit::W) above += step;
      CAPTURE(milliseconds);
      CAPTURE(watts);
      CHECK(BurstReadings(part_time, burst).time_above(watts * unit::W) / unit::ms ==
            Approx(above / unit::ms).epsilon(0.02).scale(10));
    }
}

TEST_CASE("the highest reading is the median over sensors that begin at any moment") {
  Burst burst = burst_of(20);
  burst.count = 7;
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
  CHECK(highest_of(part_time, burst, 700 * unit::W) / unit::W ==
        Approx(highest[1000]).epsilon(0.01));
}

TEST_CASE("more bursts and longer ones raise the highest reading, up to the burst's power") {
  Watts before;
  for (const double count : {1.0, 4.0, 16.0, 256.0}) {
    Burst burst = burst_of(22);
    burst.count = count;
    const Watts now = highest_of(part_time, burst, 700 * unit::W);
    CHECK(now > before);
    before = now;
  }
  for (const double milliseconds : {5.0, 15.0, 25.0, 60.0, 200.0}) {
    const Watts now = highest_of(part_time, burst_of(milliseconds), 700 * unit::W);
    CHECK(now >= 700 * unit::W);
    CHECK(now <= 1000 * unit::W);
  }
  CHECK(highest_of(part_time, flat(burst_of(200)), 700 * unit::W) / unit::W == Approx(1000));
}

TEST_CASE("a sensor that looks all the time sees the whole of a burst as long as its window") {
  const spec::SensorCoefficients whole{.power_window = 20 * unit::ms,
                                       .power_period = 20 * unit::ms};
  CHECK(highest_of(whole, flat(burst_of(40)), 700 * unit::W) / unit::W == Approx(1000));
  CHECK(highest_of(whole, burst_of(0), 700 * unit::W) <= 700 * unit::W + any);
}

TEST_CASE("what lies below a level may be forgotten") {
  for (const double milliseconds : {3.0, 25.0, 150.0}) {
    const BurstReadings whole(part_time, burst_of(milliseconds));
    for (const double watts : {650.0, 720.0, 900.0}) {
      BurstReadings part = whole;
      part.forget_below(watts * unit::W);
      for (double above = watts; above < 1010; above += 10)
        CHECK(part.time_above(above * unit::W) == whole.time_above(above * unit::W));
    }
  }
}

TEST_CASE("without bursts the sensor shows what lasts") {
  CHECK(highest_reading(part_time, {}, 432 * unit::W) == 432 * unit::W);
}

}  // namespace
}  // namespace triplepoint::power
