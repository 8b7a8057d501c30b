// SPDX-License-Identifier: Apache-2.0
// Power within a step as one signal, and its filters: what a sensor shows is a window over it, a
// kernel's peak its maximum, a swing its quantiles.
#include "triplepoint/power/power_trace.h"

#include <cmath>
#include <functional>

#include "triplepoint/base/result.h"

namespace triplepoint::power {

BoardPower board_power(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load,
                       const ClockPoint& clock) {
  const auto on_board = [&](double dynamic) {
    return gpu_power(gpu, load, clock, gpu.reference_temperature,
                     {.dynamic_energy = dynamic, .leakage = 0});
  };
  const Watts fixed = on_board(0);
  return {fixed, on_board(1) - fixed};
}

std::vector<BoardPower> highest_windows(const PowerTrace& trace, Seconds window) {
  const Seconds length = length_of(trace);
  std::vector<Seconds> begins = {Seconds()};
  Seconds edge;
  for (const Piece<BoardPower>& piece : trace) {
    edge += piece.duration;
    if (edge + window <= length) begins.push_back(edge);
    if (edge >= window) begins.push_back(edge - window);
  }
  std::ranges::sort(begins);
  return highest_of(window_means(trace, begins, window));
}

std::vector<BoardPower> highest_of(std::vector<BoardPower> powers) {
  std::ranges::sort(powers, [](const BoardPower& a, const BoardPower& b) {
    return a.dynamic != b.dynamic ? a.dynamic > b.dynamic : a.fixed > b.fixed;
  });
  // Of those with more dynamic power only what has more of the other part is higher anywhere.
  std::vector<BoardPower> highest;
  for (const BoardPower& power : powers)
    if (highest.empty() || power.fixed > highest.back().fixed) highest.push_back(power);
  return highest;
}

Watts Board::highest(const std::vector<BoardPower>& powers) const {
  return most_of(powers, [&](const BoardPower& one) { return power(one); });
}

Board board_at(const spec::PowerCoefficients& gpu, const ClockPoint& clock, Celsius die,
               const BoardFactors& board) {
  return {board.dynamic_energy, leakage_power(gpu, clock.ratio, die, board)};
}

Watts quantile(std::vector<PowerPiece> pieces, double share) {
  std::ranges::sort(pieces, {}, &PowerPiece::power);
  const Seconds until = share * length_of(pieces);
  Seconds before;
  for (const PowerPiece& piece : pieces)
    if ((before += piece.duration) >= until) return piece.power;
  return pieces.back().power;
}

Seconds window_of(const spec::SensorCoefficients& sensor) {
  TPT_EXPECT(sensor.power_period > Seconds() && sensor.power_window > Seconds());
  return std::min(sensor.power_window, sensor.power_period);
}

std::vector<PowerPiece> readings_of(const spec::SensorCoefficients& sensor, Watts before,
                                    std::vector<PowerPiece> pieces, Watts after) {
  const Seconds window = window_of(sensor), part = window / 16;
  pieces.insert(pieces.begin(), {window, before});
  pieces.push_back({window, after});
  const Seconds last = length_of(pieces) - window;
  std::vector<Seconds> begins;
  for (Seconds begin = 0.5 * part; begin < last; begin += part)
    begins.push_back(begin);
  return mapped(window_means(pieces, begins, window), [&](const Watts reading) {
    return PowerPiece{part, reading};
  });
}

Watts highest_reading(const spec::SensorCoefficients& sensor, std::vector<PowerPiece> readings,
                      Watts floor) {
  std::erase_if(readings, [&](const PowerPiece& reading) { return reading.power <= floor; });
  std::ranges::sort(readings, std::greater(), &PowerPiece::power);
  const Seconds enough = std::log(2.0) * sensor.power_period;
  Seconds above;
  for (const PowerPiece& reading : readings)
    if ((above += reading.duration) >= enough) return reading.power;
  return floor;
}

}  // namespace triplepoint::power
