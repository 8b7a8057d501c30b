// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/sim/conditions.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/thermal/chassis.h"
#include "triplepoint/thermal/steady.h"

namespace triplepoint::sim {

/// Temperatures of every device of a cluster: one chassis per node, each with its own boards, inlet
/// and fans. A value.
///
/// Every node goes to its own steady state; chassis with equal fans go there at one pace, that of
/// boards without spread (thermal/chassis.h says what this leaves out), so that a propagator serves
/// all of them. A node with a slot whose sink a fault has changed has its own.
class ClusterHeat {
 public:
  enum class Propagators { shared, own };  // own: of each node's boards, for few durations
  ClusterHeat(const spec::Job& job, const HardwareVariation& hardware);

  /// Inlets, fans and sinks as limits and faults leave them.
  void set_conditions(const Conditions&);
  void set_propagators(Propagators propagators) {
    use_ = propagators;
    last_propagators_.clear();
  }
  /// Goes on from the temperatures and fans of another job on the same boards.
  void take_over(const ClusterHeat& before);

  /// Goes where constant power leads, and stays there. Fans turn as slowly as their target allows,
  /// which is the same wherever they came from.
  void solve_steady_state(std::span<const Watts> power);
  /// Exact advance under constant power; fans follow afterwards, no faster than they can.
  void advance(std::span<const Watts> power, Seconds duration);
  /// The same of one node, which no other warms, with the power of its devices.
  void advance(size_t node, std::span<const Watts> power, Seconds duration);

  std::vector<Celsius> dies() const;
  Celsius die(size_t device) const { return Celsius(states_[device * ladder_.capacities.size()]); }
  /// The hottest HBM stack of each device: node 1 of its ladder, and its own power times the
  /// ladder's memory_resistance. HBM has no heat capacity here.
  std::vector<Celsius> memories(std::span<const Watts> memory_power) const;
  Celsius memory(size_t device, Watts memory_power) const;
  /// By how much a device's die rises, in steady state at the present flow, with its own power.
  KelvinsPerWatt own_resistance(size_t device) const;
  int64_t num_nodes() const { return static_cast<int64_t>(flows_.size()); }
  Celsius inlet(int64_t node) const { return inlets_[as_size(node)] + rises_[as_size(node)]; }
  double flow_share(int64_t node) const { return flows_[as_size(node)]; }

 private:
  /// Node (-1: any that shares its propagator), flow, duration.
  using PropagatorKey = std::tuple<int64_t, double, double>;

  std::span<double> state(size_t node) {
    return std::span(states_).subspan(node * state_size_, state_size_);
  }
  template <class T>
  std::span<const T> slots_of(const std::vector<T>& values, size_t node) const {
    return std::span(values).subspan(node * per_node_, per_node_);
  }
  thermal::SteadySlots::Node conditions_of(size_t node) const;
  bool meets_fan_target(size_t node, double flow, std::span<const Watts> power);
  void fill_steady(size_t node, std::span<const Watts> power, std::span<double> out) const;
  const thermal::Propagator& decay_propagator(size_t node, Seconds duration);
  size_t find_propagator(size_t node, Seconds duration);
  void forget_propagators();
  double next_flow(size_t node, Seconds duration) const;
  Celsius hottest(size_t node) const;

  Propagators use_ = Propagators::shared;
  spec::Chassis chassis_;  // of this job: its cooling may override the cluster's
  spec::ThermalLadder ladder_;
  int dies_per_package_;
  size_t per_node_, state_size_;
  thermal::SteadySlots steady_;
  std::vector<double> resistance_, sink_factor_;  // per device
  std::vector<Celsius> inlets_;                   // per node, as are the rest
  std::vector<Kelvins> rises_;
  std::vector<double> flow_limits_, flows_;
  std::vector<double> states_;           // [node][slot][node of the ladder], degrees C
  std::vector<double> rest_, distance_;  // of the node that advances
  std::vector<thermal::Propagator> propagators_;
  std::map<PropagatorKey, size_t> propagator_index_;
  /// What a node asked for last: mostly the same again. Empty, or one per node.
  struct LastPropagator {
    double flow = -1, duration = -1;
    size_t index = 0;
  };
  std::vector<LastPropagator> last_propagators_;
};

/// Absent for a job whose devices have no thermal path.
std::optional<ClusterHeat> make_heat(const spec::Job&, const HardwareVariation&);

}  // namespace triplepoint::sim
