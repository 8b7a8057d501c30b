// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/fabric.h"

#include <algorithm>
#include <array>

#include <doctest/doctest.h>

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::perf {
namespace {

using doctest::Approx;
using spec::Cluster;
using spec::Collective;
using spec::FabricKind;

constexpr std::array kinds = {FabricKind::fat_tree, FabricKind::rail_optimized,
                              FabricKind::dragonfly};

/// Nodes of 8 devices and 4 NICs, leaf switches of four nodes.
Cluster cluster_of(FabricKind kind, int64_t nodes) {
  Cluster cluster;
  cluster.num_nodes = nodes;
  cluster.gpus_per_node = 8;
  cluster.scale_up.bandwidth = 400 * unit::GB / unit::s;
  cluster.scale_up.latency = 1 * unit::us;
  cluster.scale_up.domain_size = 8;
  cluster.scale_out.kind = kind;
  cluster.scale_out.nics_per_node = 4;
  cluster.scale_out.nic_bandwidth = 50 * unit::GB / unit::s;
  cluster.scale_out.latency = 5 * unit::us;
  cluster.scale_out.nodes_per_leaf = 4;
  if (kind == FabricKind::dragonfly) cluster.scale_out.nodes_per_group = 8;
  return cluster;
}

/// Load of the busiest link over its capacity, when every NIC sends one to its like in each node.
double busiest(const Cluster& cluster) {
  const FabricTopology fabric(cluster);
  const std::vector<double> capacities = fabric.capacities();
  std::vector<double> loads(capacities.size());
  for (int64_t from = 0; from < cluster.num_nodes; ++from)
    for (int64_t to = 0; to < cluster.num_nodes; ++to)
      for (int64_t rail = 0; rail < cluster.scale_out.nics_per_node; ++rail)
        for (const int32_t link : fabric.route({from, rail}, {to, rail}).links)
          loads[as_size(link)] += 1;
  double most = 0;
  for (size_t link = 0; link < loads.size(); ++link)
    most = std::max(most, loads[link] / capacities[link]);
  return most;
}

FabricPath everyone(const Cluster& cluster, double nodes) {
  return fabric_path(cluster, nodes, Traffic::everyone);
}

TEST_CASE("a node reaches itself without a hop, and its leaf's nodes in one") {
  for (const FabricKind kind : kinds) {
    const FabricTopology fabric(cluster_of(kind, 32));
    CHECK(fabric.route({5, 0}, {5, 3}).hops == 0);
    CHECK(fabric.route({0, 1}, {1, 1}).hops == 1);
  }
}

TEST_CASE("a tree's ways have one hop or three") {
  for (const FabricKind kind : {FabricKind::fat_tree, FabricKind::rail_optimized}) {
    const FabricTopology fabric(cluster_of(kind, 32));
    CHECK(fabric.route({0, 0}, {3, 0}).hops == 1);
    CHECK(fabric.route({3, 0}, {4, 0}).hops == 3);
  }
}

TEST_CASE("a dragonfly's minimal ways cross one global link and enter at most four switches") {
  const Cluster cluster = cluster_of(FabricKind::dragonfly, 48);
  const FabricTopology fabric(cluster);
  const auto first_global = static_cast<int32_t>(6 * 2 * 2);
  for (int64_t from = 0; from < 48; ++from)
    for (int64_t to = 0; to < 48; ++to) {
      const Route route = fabric.route({from, 0}, {to, 0});
      CHECK(route.hops <= 4);
      const auto globals =
          std::ranges::count_if(route.links, [&](int32_t link) { return link >= first_global; });
      CHECK(globals == (from / 8 != to / 8 ? 1 : 0));
    }
  CHECK(fabric.route({0, 0}, {4, 0}).hops == 2);
}

TEST_CASE("a message to another rail is handed over on NVLink, and crosses the spine without it") {
  Cluster cluster = cluster_of(FabricKind::rail_optimized, 4);
  const Route handed = FabricTopology(cluster).route({0, 1}, {2, 3});
  CHECK(handed.handed_over);
  CHECK(handed.leaves == Port{0, 3});
  CHECK(handed.hops == 1);
  cluster.scale_up.kind = spec::ScaleUpKind::pcie;
  const Route through_spine = FabricTopology(cluster).route({0, 1}, {2, 3});
  CHECK_FALSE(through_spine.handed_over);
  CHECK(through_spine.leaves == Port{0, 1});
  CHECK(through_spine.hops == 3);
  CHECK_FALSE(FabricTopology(cluster).route({0, 1}, {2, 1}).handed_over);
}

TEST_CASE("rails keep their own uplinks") {
  Cluster cluster = cluster_of(FabricKind::rail_optimized, 32);
  cluster.scale_out.oversubscription = 2;
  const FabricTopology fabric(cluster);
  CHECK(fabric.route({0, 0}, {9, 0}).links != fabric.route({0, 1}, {9, 1}).links);
  cluster.scale_out.kind = FabricKind::fat_tree;
  const FabricTopology tree(cluster);
  CHECK(tree.route({0, 0}, {9, 0}).links == tree.route({0, 1}, {9, 1}).links);
}

TEST_CASE("all-to-all on a dragonfly is not promised more than its global links carry") {
  for (const double oversubscription : {1.0, 2.0, 4.0}) {
    Cluster cluster = cluster_of(FabricKind::dragonfly, 64);
    cluster.scale_out.oversubscription = oversubscription;
    const FabricPath path = everyone(cluster, 64);
    const double rate = std::min(4.0, 4 * 63 / busiest(cluster));
    CHECK(4 / path.taper == Approx(rate));
  }
}

TEST_CASE("a fabric that is not oversubscribed lets every node use all of its NICs") {
  for (const FabricKind kind :
       {FabricKind::fat_tree, FabricKind::rail_optimized, FabricKind::dragonfly})
    for (const double nodes : {2.0, 8.0, 64.0})
      for (const Traffic traffic : {Traffic::neighbours, Traffic::everyone})
        CHECK(fabric_path(cluster_of(kind, 64), nodes, traffic).taper == 1);
}

TEST_CASE("more hops never take less time") {
  const auto time = [](const Cluster& cluster, int64_t nodes) {
    const GroupPlacement group{
        .ranks = nodes, .nodes = nodes, .ranks_per_node = 1, .groups_per_node = 8};
    return collective_time(cluster, Collective::all_to_all, 1 * unit::MB, group).latency;
  };
  for (const FabricKind kind : kinds)
    for (const int64_t nodes : {2, 8, 64}) {
      Cluster cluster = cluster_of(kind, 64);
      Seconds last = time(cluster, nodes);
      for (const double us : {0.5, 1.0, 2.0}) {
        cluster.scale_out.hop_latency = us * unit::us;
        const Seconds now = time(cluster, nodes);
        const double hops = everyone(cluster, as_real(nodes)).extra_hops;
        CHECK(hops >= 0);
        CHECK((hops > 0 ? now > last : now == last));
        last = now;
      }
    }
}

TEST_CASE("oversubscription slows what leaves a leaf or a group, and nothing else") {
  for (const FabricKind kind :
       {FabricKind::fat_tree, FabricKind::rail_optimized, FabricKind::dragonfly})
    for (const Collective collective : {Collective::all_gather, Collective::all_to_all}) {
      Cluster cluster = cluster_of(kind, 64);
      cluster.scale_out.half_size = {};
      const auto transfer = [&](double oversubscription, int64_t nodes) {
        cluster.scale_out.oversubscription = oversubscription;
        const GroupPlacement group{
            .ranks = nodes * 8, .nodes = nodes, .ranks_per_node = 8, .groups_per_node = 1};
        return collective_time(cluster, collective, 1 * unit::GB, group).transfer;
      };
      CHECK(transfer(4, 4) == transfer(1, 4));
      CHECK(transfer(4, 64) > 3 * transfer(1, 64));
      CHECK(transfer(2, 64) < transfer(4, 64));
    }
}

}  // namespace
}  // namespace triplepoint::perf
