// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/node_power.h"

#include <doctest/doctest.h>

namespace triplepoint::power {
namespace {

using doctest::Approx;

spec::Cluster node() {
  spec::Cluster cluster;
  cluster.scale_out.nics_per_node = 8;
  cluster.chassis.fan_power = 1600 * unit::W;
  cluster.host = {.cpu_idle = 200 * unit::W,
                  .cpu_busy = 600 * unit::W,
                  .nic_power = 25 * unit::W,
                  .switch_power = 400 * unit::W,
                  .conversion_efficiency = 0.94};
  return cluster;
}

TEST_CASE("the wall sees the parts over the conversion efficiency") {
  const NodePower power = node_power(node(), 5600 * unit::W, 0.8, 0.5);
  const Watts parts = power.devices + power.host + power.network + power.fans;
  CHECK(power.total() / unit::W == Approx(parts / unit::W / 0.94));
}

TEST_CASE("halving the flow leaves an eighth of the fan power") {
  CHECK(node_power(node(), Watts(), 0.5, 0).fans / node_power(node(), Watts(), 1, 0).fans ==
        Approx(1.0 / 8));
}

TEST_CASE("CPUs draw between idle and busy by their busy share") {
  CHECK(node_power(node(), Watts(), 1, 0).host == 200 * unit::W);
  CHECK(node_power(node(), Watts(), 1, 1).host == 600 * unit::W);
  CHECK(node_power(node(), Watts(), 1, 0.25).host == 300 * unit::W);
}

TEST_CASE("every NIC and the switches draw power without traffic") {
  CHECK(node_power(node(), Watts(), 1, 0).network / unit::W == Approx(8 * 25 + 400));
}

TEST_CASE("a lossless supply loses nothing") {
  spec::Cluster ideal = node();
  ideal.host.conversion_efficiency = 1;
  CHECK(node_power(ideal, 1 * unit::kW, 1, 1).conversion_loss == Watts());
}

}  // namespace
}  // namespace triplepoint::power
