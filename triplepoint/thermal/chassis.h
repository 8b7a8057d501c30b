// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"

#include "triplepoint/thermal/dense.h"
#include "triplepoint/thermal/ladder.h"

namespace triplepoint::thermal {

/// Heat that air takes up per volume and kelvin, at 30 C and 1013 hPa: 1.164 kg/m3 times 1006 J/(kg
/// K). Source: VDI Heat Atlas, properties of dry air.
inline constexpr double air_heat_capacity_j_per_m3_k = 1171;

/// What one duration does to a chassis: x(t) = x_steady + E (x(0) - x_steady). A value; threads may
/// share it.
class Propagator {
 public:
  Seconds duration() const { return duration_; }
  /// out += E distance: what is left after the duration of a state's distance from rest.
  void add_decayed(std::span<const double> distance, std::span<double> out) const;

 private:
  friend class ChassisModel;
  Seconds duration_;
  Matrix decay_;  // E = exp(A t)
};

/// What bounds a sink's resistance where less flows than the fans leave: the effectiveness e of its
/// stream, which goes to 1 as the flow ceases. Above 1 sinks would pass on more heat than they
/// have, and the slots behind them would get colder than the inlet.
///
///   R_i >= s_i / (W e_i),     e_i = max(1, 1 + (e_floor - 1) flow_share / fan_floor)
///
/// s_i: upstream_ij of a slot and of those beside it, added up. e_floor: what the resistance at the
/// fans' floor amounts to; above 1 where the ladder counts a part of the way through the sink
/// elsewhere. Nothing changes from the floor on.
/// Source: effectiveness of a heat exchanger, second law.
class StreamLimits {
 public:
  StreamLimits(const spec::Chassis&, const spec::ThermalLadder&);
  /// K/W.
  double least_resistance(size_t slot, double flow_share) const;

 private:
  struct AtFloor {
    double least = 0, effectiveness = 1;
  };
  double floor_ = 0;
  std::vector<AtFloor> at_floor_;
};

/// The thermal network of one node: each device's ladder, slots coupled through air or coolant.
///
///   C_0 dT_0/dt = P - (T_0 - T_1) / r_0
///   C_k dT_k/dt = (T_k-1 - T_k) / r_k-1 - (T_k - T_k+1) / r_k,     last node: ... - q
///   q_i = (T_last,i - T_air,i) / R_i
///   T_air,i = inlet + offset_i + (fixed_heat + sum_j upstream_ij q_j) / W
///   R_i = r_last * slot factor_i / flow_share^sink_flow_exponent, StreamLimits at least
///   W = rho cp V' flow_share (air), coolant_heat_capacity flow_share (liquid, immersion)
///
/// A board's factor (mounting, thermal paste) scales all resistances of its slot.
/// q_j: heat that leaves slot j's sink now, not its power, so sinks upstream delay what they pass.
/// upstream_ij: rise of slot i's air in units of "q_j mixed into the whole flow"; a quarter of the
/// flow that takes up all of q_j has 4. A cold plate in a series loop has 1 for every slot upstream
/// (and 1/2 for itself), in a parallel one 0 for the others.
/// Packages of several dies: slots in groups of dies_per_package are joined at node 1 (the lid) by
/// the ladder's lateral_resistance; each die keeps its own way out, so one may sit downstream.
/// Linear at constant flow, so steps of piecewise-constant power are exact (matrix exponential).
/// Holds while the flow is constant within a step and heat leaves through the coolant only.
/// Source: docs/models/thermal.md.
class ChassisModel {
 public:
  /// flow_share: fan (or pump) flow over full flow. board_resistance: one factor per slot
  /// (variability), or empty.
  ChassisModel(const spec::Chassis&, const spec::ThermalLadder&, int dies_per_package,
               double flow_share, std::span<const double> board_resistance = {});
  ~ChassisModel();
  ChassisModel(const ChassisModel&) = delete;
  ChassisModel& operator=(const ChassisModel&) = delete;
  ChassisModel(ChassisModel&&) noexcept;
  ChassisModel& operator=(ChassisModel&&) noexcept;

  int64_t slots() const;
  int64_t nodes_per_slot() const;
  int64_t state_size() const { return slots() * nodes_per_slot(); }

  /// Temperatures of all nodes, slot-major: [slot * nodes_per_slot + node]; node 0 is the die.
  using State = std::vector<double>;  // degrees C
  State uniform(Celsius) const;
  /// Where constant power leads; needs no propagator.
  State steady(std::span<const Watts> power, Celsius inlet) const;

  /// Prepares a duration. Costs about 25 products of two state_size() matrices.
  Propagator prepare(Seconds duration) const;
  /// Exact advance under constant power. A propagator of the same chassis type with other board
  /// factors may be shared: the steady state stays this board's own, only the pace is the other's.
  void advance(State&, std::span<const Watts> power, Celsius inlet, const Propagator&) const;
  /// The same; prepares every new duration once and keeps it (safe from several threads). For few
  /// distinct ones.
  void advance(State&, std::span<const Watts> power, Celsius inlet, Seconds duration) const;
  /// Many chassis of this kind at once: chassis c has states[c * state_size() ..], power[c *
  /// slots() ..] and inlet[c].
  void advance_many(const Propagator&, std::span<double> states, std::span<const Watts> power,
                    std::span<const Celsius> inlet) const;

  Celsius die(const State&, int64_t slot) const;
  /// The hottest HBM stack: sits on node 1 (the lid) by the ladder's memory_resistance.
  Celsius memory(const State&, int64_t slot, Watts memory_power) const;
  /// Air (or coolant) that reaches the slot's sink.
  Celsius coolant(const State&, int64_t slot, Celsius inlet) const;

  /// The ledger: what the network holds over `reference`, and what leaves it for the coolant now.
  Joules stored(const State&, Celsius reference) const;
  Watts carried_off(const State&, Celsius inlet) const;

  /// Peak die rise over its mean in the periodic steady state of a repeating power (one step's
  /// stretches).
  Kelvins periodic_peak_rise(int64_t slot, std::span<const PowerStretch>) const;
  using Piece = PowerStretch;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Fan controller: flow share that holds the hottest device at the target, within floor and 1,
/// moving at most slew * duration from `present`.
///
///   wanted = present (hottest - inlet) / (fan_target - inlet)
///
/// Holds where rises fall with flow (any exponent up to 1); a fixed point of it is at the target,
/// the floor or 1. Source: ours; vendors' fan tables are not public.
double next_flow_share(const spec::Chassis&, double present, Celsius hottest, Seconds duration);

}  // namespace triplepoint::thermal
