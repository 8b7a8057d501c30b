// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/power_trace.h"

#include <array>
#include <vector>

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace triplepoint::power
