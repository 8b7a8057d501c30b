// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/fabric.h"

// Nodes, links and routes of a fabric: what boundary tensors meet each other on. The kinds,
// their capacities and sources are in fabric.h; what a fabric makes of collectives is in
// fabric.cpp.
//
// Capacities are in NICs, because boundaries know what a NIC carries of a message of their size.
// Links are directed and numbered by formula, so that a route needs no table:
//
//   tree        2 leaf (+ 1 for down)
//   dragonfly   [group][leaf][leaf], then [group][group]
//
// Routes are static and minimal. Cost of one: O(hops).

#include <algorithm>
#include <cmath>

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

/// The largest divisor of n whose square is at most n.
int64_t largest_divisor_below_root(int64_t n) {
  int64_t best = 1;
  for (int64_t side = 1; side * side <= n; ++side)
    if (n % side == 0) best = side;
  return best;
}

}  // namespace

int64_t dragonfly_group(const Cluster& cluster) {
  if (cluster.scale_out.nodes_per_group > 0) return cluster.scale_out.nodes_per_group;
  return largest_divisor_below_root(at_least_one(cluster.num_nodes));
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
      nodes_per_group_(kind_ == FabricKind::dragonfly ? dragonfly_group(cluster) : nodes_),
      groups_(divide_up(nodes_, nodes_per_group_)),
      leaves_of_group_(divide_up(nodes_per_group_, nodes_per_leaf_)) {}

int64_t FabricTopology::num_leaves() const {
  return divide_up(nodes_, nodes_per_leaf_);
}

std::vector<double> FabricTopology::capacities() const {
  if (kind_ == FabricKind::dragonfly) {
    const int64_t below = std::min(nodes_per_leaf_, nodes_per_group_) * nics_;
    std::vector<double> links(as_size(groups_ * leaves_of_group_ * leaves_of_group_),
                              2 * as_real(below) / as_real(at_least_one(leaves_of_group_ - 1)));
    links.insert(
        links.end(), as_size(groups_ * groups_),
        as_real(nodes_per_group_ * nics_) / oversubscription_ / as_real(at_least_one(groups_ - 1)));
    return links;
  }
  if (!uplinks_bind_) return {};
  const int64_t rails = nics_ / rails_of_leaf_;
  const double below = as_real(nodes_per_leaf_ * rails_of_leaf_);
  return std::vector<double>(as_size(2 * num_leaves() * rails), below / oversubscription_);
}

Route FabricTopology::route(Port from, Port to) const {
  Route route{.leaves = from, .arrives = to};
  if (from.node == to.node) return route;
  kind_ == FabricKind::dragonfly ? through_dragonfly(route) : through_tree(route);
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

// What a fabric makes of a group's traffic, compared with one in which only NICs count: a divisor
// (taper), steps and extra hops. Collectives are estimated by closed forms, so routes are not
// walked; what matters of each kind of fabric is the narrowest cut that the traffic has to cross.
//
// Approximation: the job's nodes lie under leaves and groups in no order, so a ring may cross at
// any step, and all its steps count as crossing ones. It is pessimistic for jobs that a scheduler
// packs.

namespace {

double count(int64_t n) {
  return as_real(std::max<int64_t>(1, n));
}

FabricPath tree_path(const Cluster& cluster, double nodes, Traffic traffic) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  const bool changes_rails = fabric.kind == FabricKind::rail_optimized &&
                             cluster.scale_up.kind == spec::ScaleUpKind::pcie &&
                             fabric.nics_per_node > 1 && traffic == Traffic::everyone;
  if (nodes <= count(fabric.nodes_per_leaf) && !changes_rails) return {};
  return {.taper = std::max(1.0, fabric.oversubscription), .extra_hops = 2};
}

FabricPath dragonfly_path(const Cluster& cluster, double nodes, Traffic traffic) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  const double nodes_of_group = count(dragonfly_group(cluster));
  if (nodes <= nodes_of_group)
    return {.extra_hops = nodes > count(fabric.nodes_per_leaf) ? 1.0 : 0.0};
  FabricPath path{.taper = std::max(1.0, fabric.oversubscription), .extra_hops = 3};
  if (traffic == Traffic::neighbours) return path;
  const double groups = std::ceil(std::max(count(cluster.num_nodes), nodes) / nodes_of_group);
  // Of what a node sends, only the part to nodes of other dragonfly groups crosses global links.
  const double near = std::max(1.0, nodes / groups);
  path.taper = std::max(1.0, path.taper * (nodes - near) / (nodes - 1));
  return path;
}

}  // namespace

FabricPath fabric_path(const Cluster& cluster, double nodes, Traffic traffic) {
  if (nodes <= 1) return {};
  return cluster.scale_out.kind == FabricKind::dragonfly ? dragonfly_path(cluster, nodes, traffic)
                                                         : tree_path(cluster, nodes, traffic);
}

}  // namespace triplepoint::perf
