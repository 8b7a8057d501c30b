// SPDX-License-Identifier: Apache-2.0
// A node at the wall: a sum of parts, and the conversion loss over all of them.
#include "triplepoint/power/node_power.h"

namespace triplepoint::power {

NodePower node_power(const spec::Cluster& cluster, Watts devices, double fan_share,
                     double cpu_share) {
  const spec::Host& host = cluster.host;
  NodePower node{.devices = devices,
                 .host = host.cpu_idle + cpu_share * (host.cpu_busy - host.cpu_idle),
                 .network = static_cast<double>(cluster.scale_out.nics_per_node) * host.nic_power +
                            host.switch_power,
                 .fans = cluster.chassis.fan_power * (fan_share * fan_share * fan_share),
                 .conversion_loss = Watts()};
  node.conversion_loss = node.total() * (1 / host.conversion_efficiency - 1);
  return node;
}

}  // namespace triplepoint::power
