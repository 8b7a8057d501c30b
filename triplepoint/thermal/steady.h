// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"

#include "triplepoint/thermal/chassis.h"

namespace triplepoint::thermal {

/// Where constant power leads the nodes of a cluster, without building a network for each of them.
///
///   q_i      = P_i - sum over joined lids n of (L_i - L_n) / r_lateral         (q = P where none)
///   T_air,i  = inlet + offset_i + (fixed_heat + sum_j upstream_ij q_j) / W
///   T_last,i = T_air,i + R_i q_i,     T_k = T_k+1 + b_i r_k q_i (above the lid: P_i)
///
/// Symbols as in ChassisModel, L: the lid's temperature; b_i: the board's factor. Equal to
/// ChassisModel::steady, which is its oracle, at the price of a few multiplications: 100,000 boards
/// with a factor each stay in reach.
class SteadySlots {
 public:
  SteadySlots(const spec::Chassis&, const spec::ThermalLadder&, int dies_per_package);

  /// What tells one node from another. The factors: one per slot.
  struct Node {
    double flow_share = 1;
    Celsius inlet;
    std::span<const double> board;  // of all resistances
    std::span<const double> sink;   // of the last one alone, beside the slot's own
  };
  int64_t slots() const { return static_cast<int64_t>(offset_.size()); }
  int64_t state_size() const { return slots() * static_cast<int64_t>(resistances_.size()); }
  /// Temperatures of all nodes of the network, slot-major, as ChassisModel::State has them.
  void fill(const Node&, std::span<const Watts> power, std::span<double> state) const;
  /// What a watt more in a slot adds to its own die; lids that are joined are taken as apart.
  KelvinsPerWatt own_resistance(const Node&, size_t slot) const;

 private:
  double sink_resistance(const Node&, size_t slot, double typical) const;
  void share_between_lids(const Node&, double capacity, double sink, std::span<double> heat) const;

  size_t lid_ = 0;
  int dies_per_package_ = 1;
  double lateral_ = 0;  // W/K between neighbouring lids; 0: not joined
  double full_capacity_ = 0, exponent_ = 0, fixed_heat_ = 0;
  StreamLimits limits_;
  std::vector<double> resistances_;  // of the ladder
  std::vector<double> offset_, slot_factor_,
      upstream_heating_;  // upstream_heating: [slot * slots + other]
};

}  // namespace triplepoint::thermal
