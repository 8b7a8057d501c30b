// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/discover/discover.h"

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

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
  const auto shape = must(shape_of(eight_gpus()));
  CHECK(shape.gpus == 8);
  CHECK(shape.scale_up == spec::ScaleUpKind::nvswitch);
  CHECK(*shape.scale_up_bandwidth == 450 * gb_per_s);
  CHECK(shape.nics == 4);  // Ethernet is for logging in
  CHECK(*shape.nic_bandwidth == 50 * gb_per_s);
  CHECK(shape.remarks.empty());
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

telemetry::NodeShape h200_node(int64_t gpus) {
  telemetry::NodeShape shape;
  shape.host = "node17";
  shape.model = "NVIDIA H200";
  shape.gpus = gpus;
  shape.scale_up = spec::ScaleUpKind::nvswitch;
  shape.scale_up_bandwidth = 450 * gb_per_s;
  shape.links = 18;
  shape.nics = 4;
  shape.nic_bandwidth = 25 * gb_per_s;
  shape.memory = 143771 * unit::MiB;
  shape.power_limit = shape.power_limit_default = 700 * unit::W;
  shape.max_clock = 1980 * unit::MHz;
  return shape;
}

spec::Cluster read_back(const std::string& toml) {
  const ScratchFolder folder;
  const auto cluster =
      spec::load_cluster(spec::default_library(), folder.file("cluster.toml", toml));
  REQUIRE_MESSAGE(cluster, cluster.error().what);
  return *cluster;
}

TEST_CASE("what was found is what simulate reads, whatever the number of GPUs") {
  for (const int64_t gpus : {1, 2, 4, 8, 16}) {
    const auto draft = must(draft_cluster(spec::default_library(), h200_node(gpus), {}));
    const spec::Cluster cluster = read_back(draft.toml);
    CHECK(cluster.gpus_per_node == gpus);
    CHECK(cluster.num_nodes == 1);
    CHECK(cluster.scale_up.domain_size == gpus);
    CHECK(cluster.scale_out.nics_per_node == 4);
    CHECK(cluster.scale_out.nic_bandwidth / gb_per_s == doctest::Approx(25));
    CHECK(cluster.chassis.slots.size() == as_size(gpus));
    if (cluster.liquid_chassis) CHECK(cluster.liquid_chassis->slots.size() == as_size(gpus));
    CHECK(cluster.gpu.power.has_value());
  }
}

TEST_CASE("equal numbers stay the library's, others are said") {
  const spec::Library library = spec::default_library();
  const auto same = draft_cluster(library, h200_node(8), {});
  CHECK(read_back(same->toml).gpu == spec::load_gpu(library, "h200").value());
  telemetry::NodeShape other = h200_node(8);
  other.max_clock = 1500 * unit::MHz;
  const auto draft = draft_cluster(library, other, {});
  CHECK(read_back(draft->toml).gpu.max_clock == 1500 * unit::MHz);
  CHECK_FALSE(draft->comparisons.back().agrees());
}

trace::NcclTests tests(const std::string& operation, int64_t ranks, double bus_gb_per_s) {
  trace::NcclTests made;
  made.ranks = ranks;
  trace::NcclTestRow row;
  row.operation = operation;
  row.size = 1e9 * unit::B;
  row.bus_bandwidth = bus_gb_per_s * gb_per_s;
  made.rows = {row};
  row.size = 1e3 * unit::B;  // says nothing of bandwidth
  row.bus_bandwidth = 0.1 * gb_per_s;
  made.rows.push_back(row);
  return made;
}

TEST_CASE("nccl-tests inside the node give the links their efficiency") {
  const auto draft =
      draft_cluster(spec::default_library(), h200_node(8), tests("all_gather", 8, 360));
  CHECK(read_back(draft->toml).scale_up.efficiency == doctest::Approx(0.8));
}

TEST_CASE("an all-reduce beyond the links is the switch's work and no efficiency") {
  const auto plain = draft_cluster(spec::default_library(), h200_node(8), {});
  const auto draft =
      draft_cluster(spec::default_library(), h200_node(8), tests("all_reduce", 8, 480));
  CHECK(read_back(draft->toml).scale_up == read_back(plain->toml).scale_up);
  CHECK_FALSE(draft->remarks.empty());
}

TEST_CASE("nccl-tests over several nodes are held against the adapters") {
  const auto draft =
      draft_cluster(spec::default_library(), h200_node(8), tests("all_gather", 16, 80));
  CHECK(read_back(draft->toml).scale_out.efficiency == doctest::Approx(0.8));  // of 4 x 25 GB/s
}

TEST_CASE("an unknown GPU is refused by its name") {
  telemetry::NodeShape shape = h200_node(8);
  shape.model = "NVIDIA GeForce 256";
  const auto draft = draft_cluster(spec::default_library(), shape, {});
  REQUIRE_FALSE(draft);
  CHECK(draft.error().what.find("GeForce 256") != std::string::npos);
}

}  // namespace

}  // namespace triplepoint::telemetry
