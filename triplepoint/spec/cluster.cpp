// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/cluster.h"

#include <algorithm>

namespace triplepoint::spec {
namespace {

void use_slots(Chassis& chassis, std::size_t count) {
  if (chassis.slots.size() > count) chassis.slots.resize(count);
  for (Slot& slot : chassis.slots)
    if (slot.upstream_heating.size() > count) slot.upstream_heating.resize(count);
}

}  // namespace

void use_devices(Cluster& cluster, int64_t devices) {
  use_slots(cluster.chassis, static_cast<std::size_t>(devices));
  if (cluster.liquid_chassis) use_slots(*cluster.liquid_chassis, static_cast<std::size_t>(devices));
  const bool of_one_node = cluster.scale_up.domain_size == cluster.gpus_per_node;
  cluster.gpus_per_node = devices;
  if (of_one_node) cluster.scale_up.domain_size = devices;
}

}  // namespace triplepoint::spec
