// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"
#include "triplepoint/spec/cluster.h"

namespace triplepoint::thermal {

/// The thermal network of one node: each device's ladder, seats coupled through the air (or coolant).
///
/// For seat i with ladder r[0..n), c[0..n):  C dT/dt = A T + B P + b(inlet).
/// Air at seat i:  T_air,i = inlet + offset_i + sum_j breathes[i][j] P_j' / (rho cp V') + fixed_heat / (rho cp V'),
/// P_j' = heat leaving seat j's sink. The last resistance scales with the seat's factor and the board's.
/// MI250: two dies share a package: their ladders join at node 1.
/// Linear at constant flow, so steps of piecewise-constant power are exact (matrix exponential).
class ChassisModel {
 public:
  /// flow_share: fan flow over full flow. board_resistance: one factor per seat (variability), or empty.
  ChassisModel(const spec::Chassis&, const spec::ThermalLadder&, int dies_per_package, double flow_share,
               std::span<const double> board_resistance = {});
  ~ChassisModel();
  ChassisModel(ChassisModel&&) noexcept;
  ChassisModel& operator=(ChassisModel&&) noexcept;

  int64_t seats() const;
  int64_t nodes_per_seat() const;

  /// Temperatures of all nodes, seat-major: [seat * nodes_per_seat + node]; node 0 is the die.
  using State = std::vector<double>;  // degrees C
  State uniform(Celsius) const;
  State steady(std::span<const Watts> power, Celsius inlet) const;
  /// Exact advance under constant power; propagators are cached per duration (few distinct ones).
  void advance(State&, std::span<const Watts> power, Celsius inlet, Seconds duration) const;

  Celsius die(const State&, int64_t seat) const;

  /// Peak die rise over its mean inside one period of a periodic power (pieces of one step, mean removed
  /// upstream): periodic steady state of the fast poles. Pieces: (duration, power) of one seat.
  struct Piece { Seconds duration; Watts power; };
  Kelvins periodic_peak_rise(int64_t seat, std::span<const Piece>) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Fan controller: flow share that holds the hottest device at the target, within floor and 1, moving at most
/// slew * duration from `present`.
double next_flow_share(const spec::Chassis&, double present, Celsius hottest, Seconds duration);

}  // namespace triplepoint::thermal
