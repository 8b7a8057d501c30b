// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/heat.h"

#include <algorithm>
#include <cmath>

namespace triplepoint::sim {
namespace {

// Fans move in whole per cents: finer steps would rebuild the network for nothing anybody could
// measure.
double whole_per_cent(double flow) {
  return std::round(flow * 100) / 100;
}

}  // namespace

ClusterHeat::ClusterHeat(const spec::Job& job, const Machine& machine)
    : job_(job),
      chassis_(job.chassis()),
      resistance_(machine.thermal_resistance),
      inlets_(machine.inlet),
      flows_(static_cast<size_t>(job.cluster.num_nodes), 1.0),
      per_node_(static_cast<size_t>(job.cluster.gpus_per_node)) {
  for (size_t node = 0; node < flows_.size(); ++node) {
    models_.emplace_back(chassis_, *job.cluster.gpu.thermal, job.cluster.gpu.dies_per_package,
                         flows_[node], std::span(resistance_).subspan(node * per_node_, per_node_));
    states_.push_back(models_.back().uniform(inlets_[node]));
  }
}

void ClusterHeat::rebuild(size_t node, double flow) {
  flows_[node] = flow;
  models_[node] =
      thermal::ChassisModel(chassis_, *job_.cluster.gpu.thermal, job_.cluster.gpu.dies_per_package,
                            flow, std::span(resistance_).subspan(node * per_node_, per_node_));
}

Celsius ClusterHeat::hottest(size_t node) const {
  Celsius top = models_[node].die(states_[node], 0);
  for (size_t seat = 1; seat < per_node_; ++seat)
    top = std::max(top, models_[node].die(states_[node], static_cast<int64_t>(seat)));
  return top;
}

void ClusterHeat::settle(std::span<const Watts> power) {
  constexpr Seconds as_long_as_needed = 1e9 * unit::s;
  for (size_t node = 0; node < models_.size(); ++node) {
    const std::span<const Watts> own = power.subspan(node * per_node_, per_node_);
    states_[node] = models_[node].steady(own, inlets_[node]);
    for (int i = 0; i < 20; ++i) {
      const double wanted = whole_per_cent(
          thermal::next_flow_share(chassis_, flows_[node], hottest(node), as_long_as_needed));
      if (wanted == flows_[node]) break;
      rebuild(node, wanted);
      states_[node] = models_[node].steady(own, inlets_[node]);
    }
  }
}

void ClusterHeat::advance(std::span<const Watts> power, Seconds duration) {
  for (size_t node = 0; node < models_.size(); ++node) {
    models_[node].advance(states_[node], power.subspan(node * per_node_, per_node_), inlets_[node],
                          duration);
    const double wanted =
        whole_per_cent(thermal::next_flow_share(chassis_, flows_[node], hottest(node), duration));
    if (wanted != flows_[node]) rebuild(node, wanted);
  }
}

std::vector<Celsius> ClusterHeat::dies() const {
  std::vector<Celsius> dies;
  dies.reserve(models_.size() * per_node_);
  for (size_t node = 0; node < models_.size(); ++node)
    for (size_t seat = 0; seat < per_node_; ++seat)
      dies.push_back(models_[node].die(states_[node], static_cast<int64_t>(seat)));
  return dies;
}

}  // namespace triplepoint::sim
