// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/fabric.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <doctest/doctest.h>

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::perf {
namespace {

using doctest::Approx;
using spec::Cluster;
using spec::Collective;
using spec::FabricKind;

constexpr std::array kinds = {FabricKind::fat_tree, FabricKind::rail_optimized, FabricKind::torus,
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

Cluster torus_of(const std::vector<int64_t>& shape) {
  const int64_t nodes =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  Cluster cluster = cluster_of(FabricKind::torus, nodes);
  cluster.scale_out.torus_shape = shape;
  return cluster;
}

/// Load of the busiest link over its capacity, when every NIC sends one to its like in each of the
/// first `nodes` nodes, `stride` apart; every such group of them does.
double busiest(const Cluster& cluster, int64_t nodes, int64_t stride = 1) {
  const FabricTopology fabric(cluster);
  const std::vector<double> capacities = fabric.capacities();
  std::vector<double> loads(capacities.size());
  for (int64_t group = 0; group < stride; ++group)
    for (int64_t from = 0; from < nodes; ++from)
      for (int64_t to = 0; to < nodes; ++to)
        for (int64_t rail = 0; rail < cluster.scale_out.nics_per_node; ++rail)
          for (const int32_t link :
               fabric.route({group + from * stride, rail}, {group + to * stride, rail}).links)
            loads[static_cast<size_t>(link)] += 1;
  double most = 0;
  for (size_t link = 0; link < loads.size(); ++link)
    most = std::max(most, loads[link] / capacities[link]);
  return most;
}

FabricPath everyone(const Cluster& cluster, double nodes, double stride = 1) {
  return fabric_path(cluster, {nodes, stride}, Traffic::everyone);
}
FabricPath neighbours(const Cluster& cluster, double nodes, double stride = 1) {
  return fabric_path(cluster, {nodes, stride}, Traffic::neighbours);
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

TEST_CASE("a torus is as far as its rings, the shorter way round") {
  const FabricTopology fabric(torus_of({4, 8}));
  CHECK(fabric.route({0, 0}, {3, 0}).hops == 1);          // round the ring of four
  CHECK(fabric.route({0, 0}, {2 + 4 * 3, 0}).hops == 5);  // two along, three up
  CHECK(fabric.route({0, 0}, {1 + 4 * 7, 0}).hops == 2);
  for (int64_t from = 0; from < 32; ++from)
    for (int64_t to = 0; to < 32; ++to) {
      const Route there = fabric.route({from, 0}, {to, 0}), back = fabric.route({to, 0}, {from, 0});
      CHECK(there.hops == back.hops);
      CHECK(static_cast<int64_t>(there.links.size()) == there.hops);
      CHECK(there.hops <= 2 + 4);
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
      const auto globals = std::count_if(route.links.begin(), route.links.end(),
                                         [&](int32_t link) { return link >= first_global; });
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

TEST_CASE("full bisection is half of all NICs, and oversubscription divides it") {
  for (const FabricKind kind : {FabricKind::fat_tree, FabricKind::rail_optimized}) {
    Cluster cluster = cluster_of(kind, 32);
    CHECK(FabricTopology(cluster).bisection() == Approx(16 * 4));
    cluster.scale_out.oversubscription = 4;
    CHECK(FabricTopology(cluster).bisection() == Approx(4 * 4));
    cluster.num_nodes = 4;  // one leaf
    CHECK(FabricTopology(cluster).bisection() == Approx(2 * 4));
  }
}

TEST_CASE("a k-ary torus has 2 k^(d-1) links across its middle, each way") {
  // Links of n / 2d NICs.
  CHECK(FabricTopology(torus_of({8})).bisection() == Approx(2 * 4 / 2.0));
  CHECK(FabricTopology(torus_of({4, 4})).bisection() == Approx(2 * 4 * 4 / 4.0));
  CHECK(FabricTopology(torus_of({4, 4, 4})).bisection() == Approx(2 * 16 * 4 / 6.0));
  CHECK(FabricTopology(torus_of({2, 1, 1})).bisection() == Approx(4));
}

TEST_CASE(
    "without a shape a torus is as near a cube as its nodes allow, and a dragonfly a square") {
  CHECK(torus_shape(cluster_of(FabricKind::torus, 64)) == std::vector<int64_t>{4, 4, 4});
  CHECK(torus_shape(cluster_of(FabricKind::torus, 32)) == std::vector<int64_t>{2, 4, 4});
  CHECK(torus_shape(cluster_of(FabricKind::torus, 1024)) == std::vector<int64_t>{8, 8, 16});
  CHECK(torus_shape(cluster_of(FabricKind::torus, 13)) == std::vector<int64_t>{1, 1, 13});
  Cluster cluster = cluster_of(FabricKind::dragonfly, 128);
  cluster.scale_out.nodes_per_group = 0;
  CHECK(dragonfly_group(cluster) == 8);
}

TEST_CASE("all-to-all on a whole torus takes what its busiest link carries by its routes") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{8}, std::vector<int64_t>{5}, std::vector<int64_t>{4, 4},
        std::vector<int64_t>{2, 4, 6}, std::vector<int64_t>{3, 3, 5}, std::vector<int64_t>{2}}) {
    const Cluster cluster = torus_of(shape);
    const auto nodes = static_cast<double>(cluster.num_nodes);
    // Each NIC sent nodes - 1 units, so the rate per node follows from the time of the busiest.
    const double rate = 4 * (nodes - 1) / busiest(cluster, cluster.num_nodes);
    CHECK(everyone(cluster, nodes).nics == Approx(std::min(4.0, rate)));
  }
}

TEST_CASE("all-to-all on a part of a torus is not promised more than its routes carry") {
  const Cluster cluster = torus_of({4, 4, 4});
  for (const int64_t nodes : {2, 4, 8, 16, 32}) {
    const double rate = 4 * (static_cast<double>(nodes) - 1) / busiest(cluster, nodes);
    CHECK(everyone(cluster, static_cast<double>(nodes)).nics <= Approx(rate));
  }
  // Four groups of four nodes, each along the second ring: none is in another's way.
  CHECK(everyone(cluster, 4, 4).nics == Approx(4 * 3 / busiest(cluster, 4, 4)));
  CHECK(everyone(cluster, 4, 4).nics == everyone(cluster, 4).nics);
}

TEST_CASE("all-to-all on a dragonfly is not promised more than its global links carry") {
  for (const double oversubscription : {1.0, 2.0, 4.0}) {
    Cluster cluster = cluster_of(FabricKind::dragonfly, 64);
    cluster.scale_out.oversubscription = oversubscription;
    const FabricPath path = everyone(cluster, 64);
    const double rate = std::min(4.0, 4 * 63 / busiest(cluster, 64));
    CHECK(path.nics / path.taper == Approx(rate));
  }
}

TEST_CASE("no all-to-all is faster than the bisection lets half of its bytes through") {
  for (const FabricKind kind : kinds)
    for (const int64_t nodes : {8, 16, 64, 128}) {
      const Cluster cluster = cluster_of(kind, nodes);
      const FabricPath path = everyone(cluster, static_cast<double>(nodes));
      const auto n = static_cast<double>(nodes);
      const double crossing = path.nics / path.taper * n / 2 * (n / 2) / (n - 1);
      CHECK(crossing <= FabricTopology(cluster).bisection() * (1 + 1e-9));
    }
}

TEST_CASE("a fabric that is not oversubscribed lets every node use all of its NICs") {
  for (const FabricKind kind :
       {FabricKind::fat_tree, FabricKind::rail_optimized, FabricKind::dragonfly})
    for (const double nodes : {2.0, 8.0, 64.0})
      for (const Traffic traffic : {Traffic::neighbours, Traffic::everyone}) {
        const FabricPath path = fabric_path(cluster_of(kind, 64), {nodes, 1}, traffic);
        CHECK(path.nics == 4);
        CHECK(path.taper == 1);
      }
}

TEST_CASE("rings fill a torus whose rings are whole, and a line of it has one way in six") {
  const Cluster cluster = torus_of({4, 4, 4});
  CHECK(neighbours(cluster, 64).nics == Approx(4));
  CHECK(neighbours(cluster, 16).nics == Approx(4 * 4 / 6.0));
  CHECK(neighbours(cluster, 4).nics == Approx(4 * 2 / 6.0));
  CHECK(neighbours(cluster, 2).nics == Approx(4 / 6.0));
  CHECK(neighbours(cluster, 64).steps == 3 * 3);
}

TEST_CASE("groups that are interleaved on a ring share it, groups across it do not") {
  const Cluster cluster = torus_of({4, 4, 4});
  CHECK(neighbours(cluster, 2, 2).nics == Approx(neighbours(cluster, 4).nics / 2));
  CHECK(neighbours(cluster, 4, 4).nics == Approx(neighbours(cluster, 4).nics));
  CHECK(neighbours(cluster, 2, 2).extra_hops == 1);
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
        const double hops = everyone(cluster, static_cast<double>(nodes)).extra_hops;
        CHECK(hops >= 0);
        CHECK((hops > 0 ? now > last : now == last));
        last = now;
      }
    }
}

TEST_CASE("all-to-all is slower on a torus than on a fat tree of equal NICs, rings are not") {
  const GroupPlacement group{
      .ranks = 64 * 8, .nodes = 64, .ranks_per_node = 8, .groups_per_node = 1};
  const auto transfer = [&](FabricKind kind, Collective collective) {
    return collective_time(cluster_of(kind, 64), collective, 1 * unit::GB, group).transfer;
  };
  CHECK(transfer(FabricKind::torus, Collective::all_to_all) >
        1.2 * transfer(FabricKind::fat_tree, Collective::all_to_all));
  CHECK(transfer(FabricKind::torus, Collective::all_gather) <=
        transfer(FabricKind::fat_tree, Collective::all_gather));
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

TEST_CASE("messages to one neighbour share a torus node's ports in that direction") {
  const Cluster torus = torus_of({4, 4, 4});
  const auto time = [](const Cluster& cluster, double sharers) {
    return point_to_point_time(cluster, 1 * unit::GB, false, sharers).transfer;
  };
  const Cluster tree = cluster_of(FabricKind::fat_tree, 64);
  CHECK(time(torus, 4) / time(tree, 4) == Approx(6));
  CHECK(time(tree, 4) == time(tree, 1));
}

}  // namespace
}  // namespace triplepoint::perf
