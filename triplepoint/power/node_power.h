// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"
#include "triplepoint/spec/cluster.h"

namespace triplepoint::power {

struct NodePower {
  Watts devices, host, network, fans, conversion_loss;
  Watts total() const { return devices + host + network + fans + conversion_loss; }
};

/// Wall power of one node. fan_share: flow over full flow; fan power is cubic in it. cpu_share: busy share.
NodePower node_power(const spec::Cluster&, Watts devices, double fan_share, double cpu_share);

}  // namespace triplepoint::power
