// SPDX-License-Identifier: Apache-2.0
// What a fabric makes of a group's traffic, compared with one in which only NICs count: a divisor
// (taper), steps and extra hops. Collectives are estimated by closed forms, so routes are not
// walked; what matters of each kind of fabric is the narrowest cut that the traffic has to cross.
//
// Approximation: the job's nodes lie under leaves and groups in no order, so a ring may cross at
// any step, and all its steps count as crossing ones. It is pessimistic for jobs that a scheduler
// packs.
#include "triplepoint/perf/fabric_path.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/perf/fabric_topology.h"

namespace triplepoint::perf {
namespace {

using spec::Cluster;
using spec::FabricKind;

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
