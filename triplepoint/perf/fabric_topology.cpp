// SPDX-License-Identifier: Apache-2.0
// Nodes, links and routes of a fabric: what boundary tensors meet each other on. The four kinds,
// their capacities and sources are in fabric_topology.h; what a fabric makes of collectives is in
// fabric_path.cpp.
//
// Capacities are in NICs, because boundaries know what a NIC carries of a message of their size.
// Links are directed and numbered by formula, so that a route needs no table:
//
//   tree        2 leaf (+ 1 for down)
//   torus       2 (node dimensions + dimension) (+ 1 for backwards)
//   dragonfly   [group][leaf][leaf], then [group][group]
//
// Routes are static and minimal. Cost of one: O(hops).
#include "triplepoint/perf/fabric_topology.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace triplepoint::perf {
namespace {

using spec::Cluster;
using spec::FabricKind;

int64_t at_least_one(int64_t n) {
  return std::max<int64_t>(1, n);
}

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

double real(int64_t n) {
  return static_cast<double>(n);
}

/// The largest divisor of n whose power is at most n.
int64_t largest_divisor_below_root(int64_t n, int64_t power) {
  const auto fits = [&](int64_t side) {
    return std::pow(real(side), real(power)) <= real(n) * (1 + 1e-9);
  };
  int64_t best = 1;
  for (int64_t side = 1; fits(side); ++side)
    if (n % side == 0) best = side;
  return best;
}

/// Cuts something in two that is wired all to all: pairs of parts across the cut.
double pairs_across(int64_t parts) {
  return real(parts / 2) * real(parts - parts / 2);
}

/// Rings longer than one: the dimensions that a torus has ports for.
int64_t used_dimensions(const std::vector<int64_t>& shape) {
  return at_least_one(
      std::count_if(shape.begin(), shape.end(), [](int64_t around) { return around > 1; }));
}

}  // namespace

std::vector<int64_t> torus_shape(const Cluster& cluster) {
  if (!cluster.scale_out.torus_shape.empty()) return cluster.scale_out.torus_shape;
  const int64_t nodes = at_least_one(cluster.num_nodes);
  const int64_t first = largest_divisor_below_root(nodes, 3);
  const int64_t second = largest_divisor_below_root(nodes / first, 2);
  return {first, second, nodes / first / second};
}

int64_t dragonfly_group(const Cluster& cluster) {
  if (cluster.scale_out.nodes_per_group > 0) return cluster.scale_out.nodes_per_group;
  return largest_divisor_below_root(at_least_one(cluster.num_nodes), 2);
}

double torus_link(const Cluster& cluster) {
  return real(at_least_one(cluster.scale_out.nics_per_node)) /
         real(2 * used_dimensions(torus_shape(cluster)));
}

FabricTopology::FabricTopology(const Cluster& cluster)
    : kind_(cluster.scale_out.kind),
      nodes_(at_least_one(cluster.num_nodes)),
      nics_(at_least_one(cluster.scale_out.nics_per_node)),
      nodes_per_leaf_(at_least_one(cluster.scale_out.nodes_per_leaf)),
      rails_of_leaf_(kind_ == FabricKind::rail_optimized ? 1 : nics_),
      hands_over_(cluster.scale_up.kind != spec::ScaleUpKind::pcie),
      uplinks_bind_(cluster.scale_out.oversubscription > 1 && num_leaves() > 1),
      oversubscription_(std::max(1.0, cluster.scale_out.oversubscription)),
      shape_(kind_ == FabricKind::torus ? torus_shape(cluster) : std::vector<int64_t>()),
      nodes_per_group_(kind_ == FabricKind::dragonfly ? dragonfly_group(cluster) : nodes_),
      groups_(divide_up(nodes_, nodes_per_group_)),
      leaves_of_group_(divide_up(nodes_per_group_, nodes_per_leaf_)) {}

int64_t FabricTopology::num_leaves() const {
  return divide_up(nodes_, nodes_per_leaf_);
}

std::vector<double> FabricTopology::capacities() const {
  switch (kind_) {
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized: {
      if (!uplinks_bind_) return {};
      const int64_t rails = nics_ / rails_of_leaf_;
      const double below = real(nodes_per_leaf_ * rails_of_leaf_);
      return std::vector<double>(static_cast<size_t>(2 * num_leaves() * rails),
                                 below / oversubscription_);
    }
    case FabricKind::torus: {
      const auto links = static_cast<size_t>(nodes_) * 2 * shape_.size();
      return std::vector<double>(links, real(nics_) / real(2 * used_dimensions(shape_)));
    }
    case FabricKind::dragonfly: {
      const int64_t below = std::min(nodes_per_leaf_, nodes_per_group_) * nics_;
      std::vector<double> links(static_cast<size_t>(groups_ * leaves_of_group_ * leaves_of_group_),
                                2 * real(below) / real(at_least_one(leaves_of_group_ - 1)));
      links.insert(
          links.end(), static_cast<size_t>(groups_ * groups_),
          real(nodes_per_group_ * nics_) / oversubscription_ / real(at_least_one(groups_ - 1)));
      return links;
    }
  }
  return {};
}

Route FabricTopology::route(Port from, Port to) const {
  Route route{.leaves = from, .arrives = to, .links = {}};
  if (from.node == to.node) return route;
  switch (kind_) {
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized:
      through_tree(route);
      break;
    case FabricKind::torus:
      around_torus(route);
      break;
    case FabricKind::dragonfly:
      through_dragonfly(route);
      break;
  }
  return route;
}

void FabricTopology::through_tree(Route& route) const {
  const bool own_rails = rails_of_leaf_ < nics_;
  // NCCL's PXN: a hop over NVLink to the device on the right rail instead of two more switches.
  if (own_rails && hands_over_ && route.leaves.rail != route.arrives.rail) {
    route.handed_over = true;
    route.leaves.rail = route.arrives.rail;
  }
  const auto leaf = [&](Port port) {
    const int64_t of_nodes = port.node / nodes_per_leaf_;
    return own_rails ? of_nodes * nics_ + port.rail : of_nodes;
  };
  const int64_t first = leaf(route.leaves), last = leaf(route.arrives);
  route.hops = first == last ? 1 : 3;
  if (first == last || !uplinks_bind_) return;
  route.links = {static_cast<int32_t>(2 * first), static_cast<int32_t>(2 * last + 1)};
}

void FabricTopology::around_torus(Route& route) const {
  int64_t at = route.leaves.node, stride = 1;
  for (size_t d = 0; d < shape_.size(); ++d) {
    // Dimension by dimension: one fixed route for each pair of ports.
    const int64_t around = shape_[d];
    const int64_t here = at / stride % around, there = route.arrives.node / stride % around;
    const int64_t ahead = (there - here + around) % around;
    // Halfway round both ways are equally long; all on one side would load one direction twice.
    const bool takes_turns = 2 * ahead == around && (here + route.leaves.rail) % 2 != 0;
    const bool backwards = 2 * ahead > around || takes_turns;
    const int64_t distance = backwards ? around - ahead : ahead;
    for (int64_t i = 0; i < distance; ++i) {
      const int64_t position = (here + (backwards ? around - i : i)) % around;
      const int64_t node = at + (position - here) * stride;
      route.links.push_back(static_cast<int32_t>(
          2 * (node * static_cast<int64_t>(shape_.size()) + static_cast<int64_t>(d)) +
          (backwards ? 1 : 0)));
    }
    at += (there - here) * stride;
    stride *= around;
    route.hops += distance;
  }
}

/// The leaf of a group that has the links to another one: these are dealt out in turn.
int64_t FabricTopology::gateway(int64_t group, int64_t to_group) const {
  return (to_group - group - 1 + groups_) % groups_ % leaves_of_group_;
}

int32_t FabricTopology::local_link(int64_t group, int64_t from, int64_t to) const {
  return static_cast<int32_t>((group * leaves_of_group_ + from) * leaves_of_group_ + to);
}

void FabricTopology::through_dragonfly(Route& route) const {
  const auto group_of = [&](Port port) { return port.node / nodes_per_group_; };
  const auto leaf_of = [&](Port port) { return port.node % nodes_per_group_ / nodes_per_leaf_; };
  const int64_t first = group_of(route.leaves), last = group_of(route.arrives);
  const auto pass = [&](int64_t group, int64_t from, int64_t to) {
    ++route.hops;
    if (from == to) return;
    ++route.hops;
    route.links.push_back(local_link(group, from, to));
  };
  if (first == last) return pass(first, leaf_of(route.leaves), leaf_of(route.arrives));
  pass(first, leaf_of(route.leaves), gateway(first, last));
  const int64_t all_local = groups_ * leaves_of_group_ * leaves_of_group_;
  route.links.push_back(static_cast<int32_t>(all_local + first * groups_ + last));
  pass(last, gateway(last, first), leaf_of(route.arrives));
}

double FabricTopology::bisection() const {
  // All NICs of one half of the nodes, which no fabric can exceed.
  const double half = real(nodes_) / 2 * real(nics_);
  if (kind_ == FabricKind::torus) {
    const int64_t longest = *std::max_element(shape_.begin(), shape_.end());
    if (longest == 1) return half;
    const double rings = real(nodes_ / longest);
    return 2 * rings * real(nics_) / real(2 * used_dimensions(shape_));
  }
  if (kind_ == FabricKind::dragonfly && groups_ > 1)
    return pairs_across(groups_) * real(nodes_per_group_ * nics_) / oversubscription_ /
           real(groups_ - 1);
  return kind_ != FabricKind::dragonfly && uplinks_bind_ ? half / oversubscription_ : half;
}

}  // namespace triplepoint::perf
