// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/sim/machine.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint::sim {

/// Temperatures of every device of a cluster: one chassis per node, each with its own boards, inlet
/// and fans.
class ClusterHeat {
 public:
  ClusterHeat(const spec::Job& job, const Machine& machine);

  /// Goes where constant power leads, fans included, and stays there.
  void settle(std::span<const Watts> power);
  /// Exact advance under constant power; fans follow afterwards, no faster than they can.
  void advance(std::span<const Watts> power, Seconds duration);

  std::vector<Celsius> dies() const;
  Celsius inlet(int64_t node) const { return inlets_[static_cast<size_t>(node)]; }
  double flow_share(int64_t node) const { return flows_[static_cast<size_t>(node)]; }

 private:
  void rebuild(size_t node, double flow);
  Celsius hottest(size_t node) const;

  const spec::Job& job_;
  spec::Chassis chassis_;  // of this job: its cooling may override the cluster's
  std::vector<double> resistance_;
  std::vector<Celsius> inlets_;
  std::vector<double> flows_;
  std::vector<thermal::ChassisModel> models_;
  std::vector<thermal::ChassisModel::State> states_;
  size_t per_node_;
};

}  // namespace triplepoint::sim
