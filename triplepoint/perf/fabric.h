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

/// The nodes a group has ranks on, `stride` apart.
struct NodeGroup {
  double nodes = 1;
  double stride = 1;
};

/// neighbours: each node sends to the next (rings, trees). everyone: each sends alike to all.
enum class Traffic { neighbours, everyone };

/// What the fabric makes of a group's traffic, against a fabric in which only NICs count and every
/// step is one hop.
struct FabricPath {
  double nics = 1;        // NICs' worth out of a node, for all its groups together
  double taper = 1;       // by which layers above the leaves divide what a group gets
  double steps = 1;       // from node to node, one after the other, of one pass of a ring
  double extra_hops = 0;  // mean switches or routers in one step, beyond the first
};

/// N nodes, n NICs each; L nodes a leaf switch; o: oversubscription.
///
///   fat_tree, rail_optimized   nics = n; taper = o for N > L, and 2 extra hops; steps = N - 1. In
///                              rails without NVLink, `everyone` needs the spine for any N.
///   dragonfly  G nodes a group: `neighbours` have taper = o for N > G; `everyone`
///              max(1, o (N - N/g)/(N - 1)), what leaves a group of the N/g nodes in each of g.
///              Extra hops: 1 beyond a leaf, 3 beyond a group. steps = N - 1
///   torus      the group fills the rings in order, b_i nodes s_i apart in dimension i, over D
///   rings
///              of n/2D NICs each way. A ring that is full has both ways (w_i = 2), a part of one
///              is a line, whose way back is the other direction (w_i = 1). s_i groups are
///              interleaved.
///
///              neighbours   nics = n/2D * sum w_i / s_i (b_i > 1); steps = sum b_i - 1
///              everyone     nics = min over i of
///                           n/2D * w_i (N - 1) / (floor(b_i/2) ceil(b_i/2) N/b_i s_i), the busiest
///                           links: those at the cut that halves the ring; extra hops: mean
///                           distance
///
/// `neighbours` on a torus is the bucket algorithm: rings in all dimensions and both ways at once.
/// Holds for a job whose nodes lie under leaves and groups in no order, which is what switched
/// fabrics are built for (so any step of a ring may cross), and a torus handed out as a block; for
/// routes as in FabricTopology.
/// Sources: those of fabric.h; Jain and Sabharwal, Optimal bucket algorithms for large MPI
/// collectives on torus interconnects, ICS 2010.
FabricPath fabric_path(const spec::Cluster&, const NodeGroup&, Traffic);

}  // namespace triplepoint::perf
