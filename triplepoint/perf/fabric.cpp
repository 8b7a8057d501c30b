// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/fabric.h"

// Nodes, links and routes of a fabric: what boundary tensors meet each other on. The four kinds,
// their capacities and sources are in fabric.h; what a fabric makes of collectives is in
// fabric.cpp.
//
// Capacities are in NICs, because boundaries know what a NIC carries of a message of their size.
// Links are directed and numbered by formula, so that a route needs no table:
//
//   tree        2 leaf (+ 1 for down)
//   torus       2 (node dimensions + dimension) (+ 1 for backwards)
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

// What a fabric makes of a group's traffic, compared with one in which only NICs count: a divisor
// (taper), steps and extra hops. Collectives are estimated by closed forms, so routes are not
// walked; what matters of each kind of fabric is the narrowest cut that the traffic has to cross.
//
// Approximation: the job's nodes lie under leaves and groups in no order, so a ring may cross at
// any step, and all its steps count as crossing ones. It is pessimistic for jobs that a scheduler
// packs.

namespace {

double count(int64_t n) {
  return static_cast<double>(std::max<int64_t>(1, n));
}

FabricPath switched(const Cluster& cluster, const NodeGroup& group) {
  return {.nics = count(cluster.scale_out.nics_per_node), .steps = group.nodes - 1};
}

FabricPath tree_path(const Cluster& cluster, const NodeGroup& group, Traffic traffic) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  const bool changes_rails = fabric.kind == FabricKind::rail_optimized &&
                             cluster.scale_up.kind == spec::ScaleUpKind::pcie &&
                             fabric.nics_per_node > 1 && traffic == Traffic::everyone;
  FabricPath path = switched(cluster, group);
  if (group.nodes <= count(fabric.nodes_per_leaf) && !changes_rails) return path;
  path.taper = std::max(1.0, fabric.oversubscription);
  path.extra_hops = 2;
  return path;
}

FabricPath dragonfly_path(const Cluster& cluster, const NodeGroup& group, Traffic traffic) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  const double nodes_of_group = count(dragonfly_group(cluster));
  FabricPath path = switched(cluster, group);
  if (group.nodes <= nodes_of_group) {
    path.extra_hops = group.nodes > count(fabric.nodes_per_leaf) ? 1 : 0;
    return path;
  }
  path.extra_hops = 3;
  path.taper = std::max(1.0, fabric.oversubscription);
  if (traffic == Traffic::neighbours) return path;
  const double groups = std::ceil(std::max(count(cluster.num_nodes), group.nodes) / nodes_of_group);
  // Of what a node sends, only the part to nodes of other dragonfly groups crosses global links.
  const double near = std::max(1.0, group.nodes / groups);
  path.taper = std::max(1.0, path.taper * (group.nodes - near) / (group.nodes - 1));
  return path;
}

/// Of a group, in one dimension of a torus.
struct Extent {
  double nodes, step;
  bool is_ring;
  double ways() const { return is_ring ? 2 : 1; }
};

/// How the group lies in the rings: it fills one after the other.
std::vector<Extent> extents_of(const Cluster& cluster, const NodeGroup& group) {
  std::vector<Extent> extents;
  double stride = group.stride, left = group.nodes;
  for (const int64_t around : torus_shape(cluster)) {
    const double step = std::min(stride, count(around));
    const double nodes = std::min(left, std::ceil(count(around) / step));
    if (nodes > 1)
      extents.push_back({.nodes = nodes, .step = step, .is_ring = nodes * step >= count(around)});
    // The next dimension counts rings of this one, the last of which may be part full.
    left = std::ceil(left / nodes);
    stride = std::max(1.0, stride / count(around));
  }
  return extents;
}

/// Steps from a node of a ring, or line, to another one and to itself, in the mean.
double mean_distance(const Extent& extent) {
  const double n = extent.nodes;
  const double mean = extent.is_ring ? std::floor(n * n / 4) / n : (n * n - 1) / (3 * n);
  return mean * extent.step;
}

FabricPath torus_path(const Cluster& cluster, const NodeGroup& group, Traffic traffic) {
  const double all = count(cluster.scale_out.nics_per_node), link = torus_link(cluster);
  FabricPath path{.nics = all, .steps = 0};
  double along = 0, distance = 0, hops = 0;
  for (const Extent& extent : extents_of(cluster, group)) {
    const double b = extent.nodes, across = std::floor(b / 2) * std::ceil(b / 2);
    along += link * extent.ways() / extent.step;
    path.steps += b - 1;
    hops += (b - 1) * extent.step;
    distance += mean_distance(extent);
    // The cut that halves a ring: floor(b/2) ceil(b/2) pairs across it, times the rings side by
    // side.
    if (traffic == Traffic::everyone)
      path.nics = std::min(path.nics, link * extent.ways() * (group.nodes - 1) /
                                          (across * group.nodes / b * extent.step));
  }
  if (path.steps <= 0) return {.nics = all, .steps = group.nodes - 1};
  if (traffic == Traffic::neighbours) {
    path.nics = std::min(all, along);
    path.extra_hops = hops / path.steps - 1;
  } else {
    path.extra_hops = distance * group.nodes / (group.nodes - 1) - 1;
  }
  return path;
}

}  // namespace

FabricPath fabric_path(const Cluster& cluster, const NodeGroup& group, Traffic traffic) {
  if (group.nodes <= 1) return switched(cluster, group);
  switch (cluster.scale_out.kind) {
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized:
      return tree_path(cluster, group, traffic);
    case FabricKind::torus:
      return torus_path(cluster, group, traffic);
    case FabricKind::dragonfly:
      return dragonfly_path(cluster, group, traffic);
  }
  return switched(cluster, group);
}

}  // namespace triplepoint::perf
