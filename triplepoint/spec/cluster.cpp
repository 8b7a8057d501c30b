// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/cluster.h"

#include <algorithm>

namespace triplepoint::spec {
namespace {

void use_seats(Chassis& chassis, std::size_t count) {
  if (chassis.seats.size() > count) chassis.seats.resize(count);
  for (Seat& seat : chassis.seats)
    if (seat.upstream_heating.size() > count) seat.upstream_heating.resize(count);
}

}  // namespace

void use_devices(Cluster& cluster, int64_t devices) {
  use_seats(cluster.chassis, static_cast<std::size_t>(devices));
  if (cluster.liquid_chassis) use_seats(*cluster.liquid_chassis, static_cast<std::size_t>(devices));
  const bool of_one_node = cluster.scale_up.domain_size == cluster.gpus_per_node;
  cluster.gpus_per_node = devices;
  if (of_one_node) cluster.scale_up.domain_size = devices;
}

}  // namespace triplepoint::spec
