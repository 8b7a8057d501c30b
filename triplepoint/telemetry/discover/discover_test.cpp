// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/discover/discover.h"

#include <doctest/doctest.h>

namespace triplepoint::telemetry {
namespace {

const BytesPerSecond gb_per_s = unit::GB / unit::s;

Sensors eight_gpus() {
  Sensors sensors;
  sensors.node.host = "node17";
  for (int32_t i = 0; i < 8; ++i) {
    DeviceFacts facts;
    facts.device.local = i;
    facts.device.name = "NVIDIA H200";
    facts.links = {{LinkKind::nvswitch, "", 18, 450 * gb_per_s}};
    sensors.devices.push_back(facts);
  }
  for (int i = 0; i < 4; ++i)
    sensors.node.nics.push_back(
        {.name = "mlx5", .kind = NicKind::infiniband, .bandwidth = 50 * gb_per_s, .up = true});
  sensors.node.nics.push_back(
      {.name = "eth0", .kind = NicKind::ethernet, .bandwidth = 12.5 * gb_per_s, .up = true});
  return sensors;
}

TEST_CASE("a node's shape is what its links and adapters say") {
  const auto shape = shape_of(eight_gpus());
  REQUIRE(shape);
  CHECK(shape->gpus == 8);
  CHECK(shape->scale_up == spec::ScaleUpKind::nvswitch);
  CHECK(*shape->scale_up_bandwidth == 450 * gb_per_s);
  CHECK(shape->nics == 4);  // Ethernet is for logging in
  CHECK(*shape->nic_bandwidth == 50 * gb_per_s);
  CHECK(shape->remarks.empty());
}

TEST_CASE("links to other GPUs make a mesh, no links leave PCIe") {
  Sensors sensors = eight_gpus();
  for (DeviceFacts& facts : sensors.devices)
    facts.links = {{LinkKind::nvlink, "0000:0a:00.0", 4, 100 * gb_per_s},
                   {LinkKind::nvlink, "0000:0b:00.0", 4, 100 * gb_per_s}};
  auto shape = shape_of(sensors);
  CHECK(shape->scale_up == spec::ScaleUpKind::mesh);
  CHECK(*shape->scale_up_bandwidth == 200 * gb_per_s);
  for (DeviceFacts& facts : sensors.devices)
    facts.links.clear();
  shape = shape_of(sensors);
  CHECK(shape->scale_up == spec::ScaleUpKind::pcie);
  CHECK_FALSE(shape->scale_up_bandwidth);
}

TEST_CASE("a link that is down is remarked, and the others count") {
  Sensors sensors = eight_gpus();
  sensors.devices[0].links[0] = {LinkKind::nvswitch, "", 17, 425 * gb_per_s};
  const auto shape = shape_of(sensors);
  CHECK(*shape->scale_up_bandwidth == 450 * gb_per_s);
  CHECK_FALSE(shape->remarks.empty());
}

TEST_CASE("without InfiniBand the fastest Ethernet joins the nodes") {
  Sensors sensors = eight_gpus();
  sensors.node.nics.erase(sensors.node.nics.begin(), sensors.node.nics.begin() + 4);
  sensors.node.nics.push_back(
      {.name = "eth1", .kind = NicKind::ethernet, .bandwidth = 1 * gb_per_s, .up = true});
  const auto shape = shape_of(sensors);
  CHECK(shape->nics == 1);
  CHECK(*shape->nic_bandwidth == 12.5 * gb_per_s);
}

TEST_CASE("no GPU and different GPUs are refused in a sentence") {
  CHECK_FALSE(shape_of(Sensors()));
  Sensors mixed = eight_gpus();
  mixed.devices[3].device.name = "NVIDIA A100";
  const auto refused = shape_of(mixed);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("1 x NVIDIA A100, 7 x NVIDIA H200") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::telemetry
