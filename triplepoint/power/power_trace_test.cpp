// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/power_trace.h"

#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::power {
namespace {

using doctest::Approx;

PowerTrace some_trace() {
  const auto piece = [](double milliseconds, double fixed, double dynamic) {
    return Piece<BoardPower>{milliseconds * unit::ms, {fixed * unit::W, dynamic * unit::W}};
  };
  return {piece(10, 100, 200), piece(4, 90, 700), piece(6, 210, 520), piece(10, 120, 100)};
}

TEST_CASE("power on a board is affine in its dynamic factor, and leakage comes on top") {
  spec::PowerCoefficients gpu;
  gpu.idle = 72 * unit::W;
  gpu.active_idle = 115 * unit::W;
  gpu.waiting = 150 * unit::W;
  gpu.joules_per_tflop.fill(0.8);
  gpu.joules_per_hbm_gb = 0.1;
  gpu.clock_exponent = 1.5;
  gpu.leakage = 25 * unit::W;
  gpu.leakage_e_fold = 50 * unit::K;
  spec::GpuLoad load;
  load.duration = 2 * unit::s;
  load.computing = 1.5 * unit::s;
  load.flops.fill(300 * unit::TFLOP);
  load.hbm_bytes = 1500 * unit::GB;
  for (const double ratio : {1.0, 0.7})
    for (const BoardFactors& factors : {BoardFactors{1, 1}, BoardFactors{0.93, 1.4}}) {
      const ClockPoint clock = clock_point(gpu, ratio);
      const Board board = board_at(gpu, clock, Celsius(71), factors);
      CHECK(board.power(board_power(gpu, load, clock)) / unit::W ==
            Approx(gpu_power(gpu, load, clock, Celsius(71), factors) / unit::W).epsilon(1e-12));
    }
}

TEST_CASE("the highest window is the highest of all, and covers what fits") {
  const PowerTrace trace = some_trace();
  for (const double dynamic : {0.8, 1.0, 1.3})
    for (const double milliseconds : {1.0, 5.0, 9.0, 17.0, 29.9, 30.0, 40.0}) {
      const Board board{.dynamic_energy = dynamic, .leakage = 20 * unit::W};
      const Seconds window = milliseconds * unit::ms;
      const Watts found = board.highest(highest_windows(trace, window));
      for (Seconds begin; begin + window <= length_of(trace); begin += 0.05 * unit::ms) {
        const std::array at = {begin};
        CHECK(board.power(window_means<BoardPower>(trace, at, window).front()) <=
              found + 1e-6 * unit::W);
      }
    }
  const Board typical;
  CHECK(typical.highest(highest_windows(trace, 4 * unit::ms)) / unit::W == Approx(790));
  CHECK(typical.highest(highest_windows(trace, 30 * unit::ms)) / unit::W ==
        Approx((10 * 300 + 4 * 790 + 6 * 730 + 10 * 220) / 30.0));
}

TEST_CASE("what is kept of several powers has the highest of them on every board") {
  const std::vector<BoardPower> all = {{100 * unit::W, 500 * unit::W},
                                       {300 * unit::W, 290 * unit::W},
                                       {90 * unit::W, 400 * unit::W},
                                       {200 * unit::W, 450 * unit::W}};
  const std::vector<BoardPower> kept = highest_of(all);
  CHECK(kept.size() == 3);
  for (const double dynamic : {0.0, 0.5, 1.0, 2.0}) {
    const Board board{.dynamic_energy = dynamic, .leakage = {}};
    CHECK(board.highest(kept) == board.highest(all));
  }
}

TEST_CASE("a quantile counts time, in any order of the pieces") {
  const std::vector<PowerPiece> pieces = {
      {1 * unit::s, 300 * unit::W}, {8 * unit::s, 200 * unit::W}, {1 * unit::s, 100 * unit::W}};
  CHECK(quantile(pieces, 0.05) == 100 * unit::W);
  CHECK(quantile(pieces, 0.5) == 200 * unit::W);
  CHECK(quantile(pieces, 0.95) == 300 * unit::W);
}

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
