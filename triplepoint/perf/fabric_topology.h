// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/cluster.h"

namespace triplepoint::perf {

/// Where a message enters or leaves the fabric: a NIC of a node. Equal NICs of all nodes are a
/// rail.
struct Port {
  int64_t node = 0, rail = 0;
  friend bool operator==(const Port&, const Port&) = default;
};

/// The way of one message. Its NICs are not in `links`.
struct Route {
  Port leaves, arrives;        // after it was handed to another device of its node
  bool handed_over = false;    // over scale-up links, to reach the rail of its destination
  int64_t hops = 0;            // switches, or routers of torus nodes, that it enters; 0: same node
  std::vector<int32_t> links;  // of FabricTopology::capacities()
};

/// The nodes and links of a fabric between nodes. A node has n NICs; L nodes share a leaf switch; o
/// is the oversubscription.
///
///   fat_tree        leaf switches of all NICs of L nodes, uplinks of L n / o NICs. Hops: 1 below a
///                   leaf, 3 across.
///   rail_optimized  a leaf switch per rail and L nodes, uplinks of L / o NICs. A message to
///   another
///                   rail is first handed to the device on that rail (NCCL's PXN); where scale-up
///                   is PCIe, it crosses the spine instead. Hops as in a fat tree.
///   torus           nodes on rings of k_1 x k_2 x ...; a node's n NICs are the ports of its
///   router,
///                   n / 2D in each direction of the D rings longer than one. Dimension-ordered,
///                   the shorter way round; halfway round, neighbours take turns. Hops: sum of
///                   distances.
///   dragonfly       leaf switches of L nodes; those of a group are wired all to all, and the
///   groups
///                   are; out of a group go L a n / o NICs (a leaves), evenly to the other g - 1.
///                   Minimal routes: to the leaf that has the link, across, and on. Hops: 1 to 4.
///
/// A local link of a dragonfly carries 2 L n / (a - 1) NICs: Kim's balance (a = 2p = 2h), with
/// which minimal routes of uniform traffic fit. Where uplinks are not oversubscribed they cannot
/// bind, and are left out. Holds for minimal, static routes: no adaptive or Valiant routing, no
/// hash collisions. Sources: Leiserson 1985 (fat trees); Dally, Performance Analysis of k-ary
/// n-cube Interconnection Networks, 1990 (torus); Kim, Dally, Scott, Abts, ISCA 2008 (dragonfly);
/// Wang et al. 2023 (arXiv 2307.12169) and NVIDIA's DGX SuperPOD reference architecture (rails).
class FabricTopology {
 public:
  explicit FabricTopology(const spec::Cluster& cluster);

  Route route(Port from, Port to) const;
  std::vector<double> capacities() const;  // by link, in NICs

  /// NICs' worth of links from one half of the nodes to the other, at the narrowest regular cut.
  double bisection() const;

 private:
  int64_t num_leaves() const;
  void through_tree(Route& route) const;
  void around_torus(Route& route) const;
  void through_dragonfly(Route& route) const;
  int64_t gateway(int64_t group, int64_t to_group) const;
  int32_t local_link(int64_t group, int64_t from, int64_t to) const;

  spec::FabricKind kind_;
  int64_t nodes_, nics_, nodes_per_leaf_, rails_of_leaf_;
  bool hands_over_, uplinks_bind_;
  double oversubscription_;
  std::vector<int64_t> shape_;                          // of a torus
  int64_t nodes_per_group_, groups_, leaves_of_group_;  // of a dragonfly
};

/// Nodes around each ring: as the cluster says, or as near a cube as the number of its nodes
/// allows, shortest first.
std::vector<int64_t> torus_shape(const spec::Cluster& cluster);

/// As the cluster says, or as many as make groups no fewer than the nodes in each.
int64_t dragonfly_group(const spec::Cluster& cluster);

/// NICs' worth of links out of a torus node in one direction.
double torus_link(const spec::Cluster& cluster);

}  // namespace triplepoint::perf
