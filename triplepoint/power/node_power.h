// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"

namespace triplepoint::power {

struct NodePower {
  Watts devices, host, network, fans, conversion_loss;
  Watts total() const { return devices + host + network + fans + conversion_loss; }
};

/// Power of one node at the wall.
///
///   host = cpu_idle + cpu_share (cpu_busy - cpu_idle)
///   network = nics nic_power + switch_power
///   fans = fan_power fan_share^3
///   conversion_loss = (1 / conversion_efficiency - 1) (devices + host + network + fans)
///
/// devices: all devices of the node. fan_share: flow over full flow (also of a pump). cpu_share:
/// busy share.
/// Holds for in-node switches (their heat hardly depends on traffic); the fabric is not in it.
/// Source: affinity law of fans (power with flow^3 at constant geometry); docs/models/power.md.
NodePower node_power(const spec::Cluster&, Watts devices, double fan_share, double cpu_share);

}  // namespace triplepoint::power
