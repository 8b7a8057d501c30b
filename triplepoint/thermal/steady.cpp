// SPDX-License-Identifier: Apache-2.0
// Where constant power leads a node, in closed form (equations: steady.h).
//
// At rest all power of a slot leaves through its sink, so sinks' heat is known without solving
// anything: air follows from it, and each ladder is a sum from the air up to the die. That is a few
// multiplications per slot instead of a factorized network per board, so that every board can have
// its factors.
#include "triplepoint/thermal/steady.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "triplepoint/base/result.h"

#include "triplepoint/thermal/dense.h"

namespace triplepoint::thermal {

SteadySlots::SteadySlots(const spec::Chassis& chassis, const spec::ThermalLadder& ladder,
                         int dies_per_package)
    : lid_(std::min<size_t>(1, ladder.resistances.size() - 1)),
      dies_per_package_(dies_per_package),
      full_capacity_(chassis.cooling == spec::Cooling::air
                         ? air_heat_capacity_j_per_m3_k * chassis.volume_flow_m3_s
                         : chassis.coolant_heat_capacity_w_per_k),
      exponent_(chassis.sink_flow_exponent),
      fixed_heat_(chassis.fixed_heat / unit::W),
      limits_(chassis, ladder) {
  TPT_EXPECT(!ladder.resistances.empty() && !chassis.slots.empty() && full_capacity_ > 0);
  if (ladder.lateral_resistance && dies_per_package > 1)
    lateral_ = 1 / ladder.lateral_resistance->in_base_units();
  for (const KelvinsPerWatt& resistance : ladder.resistances)
    resistances_.push_back(resistance.in_base_units());
  for (const spec::Slot& slot : chassis.slots) {
    offset_.push_back(slot.inlet_offset / unit::K);
    slot_factor_.push_back(slot.resistance_factor);
    for (size_t other = 0; other < chassis.slots.size(); ++other)
      upstream_heating_.push_back(
          other < slot.upstream_heating.size() ? slot.upstream_heating[other] : 0);
  }
}

double SteadySlots::sink_resistance(const Node& node, size_t slot, double typical) const {
  return std::max(typical * slot_factor_[slot] * node.board[slot] * node.sink[slot],
                  limits_.least_resistance(slot, node.flow_share));
}

/// (1 + G (B / W + S)) q = P - G (offset + fixed_heat / W), S_i: from the lid to the air, G: the
/// lids' conductances as a graph's Laplacian.
/// Dies of one package exchange heat over the lid, so their sinks' heat is not their power: a small
/// linear system for the heat of all slots, the only one here.
void SteadySlots::share_between_lids(const Node& node, double capacity, double sink,
                                     std::span<double> heat) const {
  const auto count = static_cast<int64_t>(heat.size());
  Matrix left = identity(count), right(count, 1);
  for (size_t i = 0; i < heat.size(); ++i)
    right(static_cast<int64_t>(i), 0) = heat[i];
  const auto add = [&](size_t row, size_t lid, double conductance) {  // conductance * L_lid
    const auto r = static_cast<int64_t>(row), l = static_cast<int64_t>(lid);
    double below = sink_resistance(node, lid, sink);
    for (size_t k = lid_; k + 1 < resistances_.size(); ++k)
      below += node.board[lid] * resistances_[k];
    left(r, l) += conductance * below;
    for (size_t j = 0; j < heat.size(); ++j)
      left(r, static_cast<int64_t>(j)) +=
          conductance * upstream_heating_[lid * heat.size() + j] / capacity;
    right(r, 0) -= conductance * (offset_[lid] + fixed_heat_ / capacity);
  };
  for (size_t i = 0; i + 1 < heat.size(); ++i) {
    if ((i + 1) % as_size(dies_per_package_) == 0) continue;
    for (const auto& [one, other] : {std::pair(i, i + 1), std::pair(i + 1, i)}) {
      add(one, one, lateral_);
      add(one, other, -lateral_);
    }
  }
  const Matrix solved = solve(left, right);
  std::copy_n(solved.column(0), count, heat.begin());
}

KelvinsPerWatt SteadySlots::own_resistance(const Node& node, size_t slot) const {
  const double sink = resistances_.back() / std::pow(node.flow_share, exponent_);
  // Own air included: a cold plate sits in the coolant that it warms itself.
  double sum = sink_resistance(node, slot, sink) +
               upstream_heating_[slot * offset_.size() + slot] / (full_capacity_ * node.flow_share);
  for (size_t k = 0; k + 1 < resistances_.size(); ++k)
    sum += node.board[slot] * resistances_[k];
  return sum * (unit::K / unit::W);
}

void SteadySlots::fill(const Node& node, std::span<const Watts> power,
                       std::span<double> state) const {
  const size_t slots = offset_.size(), nodes = resistances_.size();
  TPT_EXPECT(power.size() == slots && state.size() == slots * nodes);
  TPT_EXPECT(node.board.size() == slots && node.sink.size() == slots && node.flow_share > 0);
  const double capacity = full_capacity_ * node.flow_share;
  const double sink = resistances_.back() / std::pow(node.flow_share, exponent_);
  // No allocation for usual nodes: this runs for every node in every look at the fans.
  constexpr size_t usual_slots = 16;
  std::array<double, usual_slots> few;
  std::vector<double> many(slots > usual_slots ? slots : 0);
  const std::span<double> heat =
      slots > usual_slots ? std::span(many) : std::span(few).first(slots);
  for (size_t i = 0; i < slots; ++i)
    heat[i] = power[i] / unit::W;
  if (lateral_ > 0) share_between_lids(node, capacity, sink, heat);
  for (size_t i = 0; i < slots; ++i) {
    // Heat of the rest of the node warms the air of all slots alike.
    double picked_up = fixed_heat_;
    for (size_t j = 0; j < slots; ++j)
      picked_up += upstream_heating_[i * slots + j] * heat[j];
    double* ladder = state.data() + i * nodes;
    const double air = node.inlet.degrees() + offset_[i] + picked_up / capacity;
    ladder[nodes - 1] = air + sink_resistance(node, i, sink) * heat[i];
    for (size_t k = nodes - 1; k-- > 0;)
      ladder[k] = ladder[k + 1] +
                  // Above the lid flows the die's own power; below it what was left after the
                  // exchange with its neighbour.
                  node.board[i] * resistances_[k] * (k < lid_ ? power[i] / unit::W : heat[i]);
  }
}

}  // namespace triplepoint::thermal
