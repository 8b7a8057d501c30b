// SPDX-License-Identifier: Apache-2.0
// Heat of all nodes, each its own chassis.
//
// A window of constant power moves a node's state along exp(-A t): one propagator per flow and
// duration, kept, because windows repeat. Fans are searched for in steady state (the least flow
// that holds the hottest die at their target) and follow at their own pace in time.
//
// The steady state is a closed form per node (thermal/steady.h), the decay towards it a propagator
// (thermal/chassis.h). Both are exact at constant power and flow, so the length of a window is
// limited by how fast powers and fans follow, not by the integration. Cost of a window: one
// matrix-vector product of a chassis per node.
//
// Approximation of the shared pace: boards differ in their resistances, so their time constants do,
// too; the propagator of a board without spread serves all. The rest state is each board's own, so
// only the way there is approximate. A ripple along one step takes its own (Propagators::own).
#include "triplepoint/sim/heat.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/result.h"

#include "triplepoint/clock/governor.h"

namespace triplepoint::sim {
namespace {

// Fans move in whole per cents: finer steps need new propagators for differences below any sensor's
// resolution.
double whole_per_cent(double flow) {
  return std::max(1.0, std::round(flow * 100)) / 100;
}

// A few windows at each of the fans' speeds; beyond that, durations come from odd moments which do
// not come again.
constexpr size_t most_propagators = 512;

// Fans aim so far below the temperature at which clocks would be lowered: air is spent before
// speed.
constexpr Kelvins fans_before_clocks = 1 * unit::K;

spec::Chassis chassis_of(const spec::Job& job) {
  spec::Chassis chassis = job.chassis();
  if (const auto held = clock::held_temperature(*job.cluster.gpu.governor))
    chassis.fan_target = std::min(chassis.fan_target, *held - fans_before_clocks);
  return chassis;
}

}  // namespace

ClusterHeat::ClusterHeat(const spec::Job& job, const HardwareVariation& hardware)
    : chassis_(chassis_of(job)),
      ladder_(*job.cluster.gpu.thermal),
      dies_per_package_(static_cast<int>(job.cluster.gpu.dies_per_package)),
      per_node_(as_size(job.cluster.gpus_per_node)),
      state_size_(per_node_ * ladder_.capacities.size()),
      steady_(chassis_, ladder_, dies_per_package_),
      resistance_(hardware.thermal_resistance),
      sink_factor_(resistance_.size(), 1.0),
      inlets_(hardware.inlet),
      rises_(inlets_.size()),
      flow_limits_(inlets_.size(), 1.0),
      flows_(inlets_.size(), 1.0),
      states_(inlets_.size() * state_size_) {
  for (size_t node = 0; node < inlets_.size(); ++node)
    std::ranges::fill(state(node), inlets_[node].degrees());
}

std::optional<ClusterHeat> make_heat(const spec::Job& job, const HardwareVariation& hardware) {
  if (!job.cluster.gpu.thermal) return std::nullopt;
  return ClusterHeat(job, hardware);
}

void ClusterHeat::set_conditions(const Conditions& conditions) {
  rises_ = conditions.inlet_rise;
  flow_limits_ = conditions.flow_limit;
  if (sink_factor_ != conditions.sink_factor) {
    sink_factor_ = conditions.sink_factor;
    forget_propagators();
  }
  for (size_t node = 0; node < flows_.size(); ++node)
    flows_[node] = std::min(flows_[node], whole_per_cent(flow_limits_[node]));
}

void ClusterHeat::take_over(const ClusterHeat& before) {
  TPT_EXPECT(before.flows_.size() == flows_.size() && before.state_size_ == state_size_);
  states_ = before.states_;
  flows_ = before.flows_;
}

void ClusterHeat::fill_steady(size_t node, std::span<const Watts> power,
                              std::span<double> out) const {
  steady_.fill(conditions_of(node), power.subspan(node * per_node_, per_node_), out);
}

thermal::SteadySlots::Node ClusterHeat::conditions_of(size_t node) const {
  return {.flow_share = flows_[node],
          .inlet = inlet(static_cast<int64_t>(node)),
          .board = slots_of(resistance_, node),
          .sink = slots_of(sink_factor_, node)};
}

KelvinsPerWatt ClusterHeat::own_resistance(size_t device) const {
  return steady_.own_resistance(conditions_of(device / per_node_), device % per_node_);
}

/// How the state of a node with this flow decays towards its rest.
const thermal::Propagator& ClusterHeat::decay_propagator(size_t node, Seconds duration) {
  last_propagators_.resize(flows_.size());
  if (last_propagators_[node].flow != flows_[node] ||
      last_propagators_[node].duration != duration / unit::s) {
    const size_t index = find_propagator(node, duration);  // may forget all others
    last_propagators_.resize(flows_.size());
    last_propagators_[node] = {flows_[node], duration / unit::s, index};
  }
  return propagators_[last_propagators_[node].index];
}

void ClusterHeat::forget_propagators() {
  propagators_.clear();
  propagator_index_.clear();
  last_propagators_.clear();
}

size_t ClusterHeat::find_propagator(size_t node, Seconds duration) {
  const auto sinks = slots_of(sink_factor_, node);
  const bool plain = std::ranges::all_of(sinks, [](double factor) { return factor == 1; });
  const bool shared = plain && use_ == Propagators::shared;
  const PropagatorKey key{shared ? -1 : static_cast<int64_t>(node), flows_[node],
                          duration / unit::s};
  const auto found = propagator_index_.find(key);
  if (found != propagator_index_.end()) return found->second;
  if (propagators_.size() >= most_propagators) forget_propagators();
  spec::Chassis chassis = chassis_;
  for (size_t slot = 0; slot < sinks.size(); ++slot)
    chassis.slots[slot].resistance_factor *= sinks[slot];
  const std::span<const double> boards =
      shared ? std::span<const double>() : slots_of(resistance_, node);
  const thermal::ChassisModel model(chassis, ladder_, dies_per_package_, flows_[node], boards);
  propagator_index_.emplace(key, propagators_.size());
  propagators_.push_back(model.prepare(duration));
  return propagators_.size() - 1;
}

Celsius ClusterHeat::hottest(size_t node) const {
  const size_t nodes = state_size_ / per_node_;
  double top = states_[node * state_size_];
  for (size_t slot = 1; slot < per_node_; ++slot)
    top = std::max(top, states_[node * state_size_ + slot * nodes]);
  return Celsius(top);
}

double ClusterHeat::next_flow(size_t node, Seconds duration) const {
  const double wanted = thermal::next_flow_share(chassis_, flows_[node], hottest(node), duration);
  return whole_per_cent(std::min(wanted, flow_limits_[node]));
}

/// Tries a flow; leaves the node in its steady state.
bool ClusterHeat::meets_fan_target(size_t node, double flow, std::span<const Watts> power) {
  flows_[node] = flow;
  fill_steady(node, power, state(node));
  return hottest(node) <= chassis_.fan_target;
}

void ClusterHeat::solve_steady_state(std::span<const Watts> power) {
  constexpr double flow_tolerance = 1e-4;  // of the full flow
  for (size_t node = 0; node < flows_.size(); ++node) {
    double most = whole_per_cent(flow_limits_[node]);
    double least = std::min(whole_per_cent(std::min(chassis_.fan_floor, 1.0)), most);
    // More flow never warms a die, so the least flow that meets the target is found by halving.
    // Where not even full flow meets it, full flow stays, and clocks have to fall.
    if (meets_fan_target(node, least, power) || least == most) continue;
    if (!meets_fan_target(node, most, power)) continue;
    while (most - least > flow_tolerance) {
      const double middle = 0.5 * (least + most);
      (meets_fan_target(node, middle, power) ? most : least) = middle;
    }
    // The last try may have been a flow that is too low; the state has to be that of the flow kept.
    meets_fan_target(node, most, power);
  }
}

void ClusterHeat::advance(std::span<const Watts> power, Seconds duration) {
  for (size_t node = 0; node < flows_.size(); ++node)
    advance(node, power.subspan(node * per_node_, per_node_), duration);
}

void ClusterHeat::advance(size_t node, std::span<const Watts> power, Seconds duration) {
  // x(t) = rest + E (x(0) - rest), with the flow that the fans have now; they follow afterwards.
  rest_.resize(state_size_);
  distance_.resize(state_size_);
  const std::span<double> now = state(node);
  steady_.fill(conditions_of(node), power, rest_);
  for (size_t i = 0; i < state_size_; ++i)
    distance_[i] = now[i] - rest_[i];
  std::ranges::copy(rest_, now.begin());
  decay_propagator(node, duration).add_decayed(distance_, now);
  flows_[node] = next_flow(node, duration);
}

std::vector<Celsius> ClusterHeat::dies() const {
  std::vector<Celsius> dies;
  dies.reserve(resistance_.size());
  for (size_t d = 0; d < resistance_.size(); ++d)
    dies.push_back(die(d));
  return dies;
}

std::vector<Celsius> ClusterHeat::memories(std::span<const Watts> memory_power) const {
  std::vector<Celsius> memories;
  memories.reserve(memory_power.size());
  for (size_t d = 0; d < memory_power.size(); ++d)
    memories.push_back(memory(d, memory_power[d]));
  return memories;
}

Celsius ClusterHeat::memory(size_t device, Watts memory_power) const {
  const size_t nodes = ladder_.capacities.size(), lid = std::min<size_t>(1, nodes - 1);
  return Celsius(states_[device * nodes + lid]) + ladder_.memory_resistance * memory_power;
}

}  // namespace triplepoint::sim
