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
  int64_t hops = 0;            // switches that it enters; 0: same node
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
///   dragonfly       leaf switches of L nodes; those of a group are wired all to all, and the
///   groups
///                   are; out of a group go L a n / o NICs (a leaves), evenly to the other g - 1.
///                   Minimal routes: to the leaf that has the link, across, and on. Hops: 1 to 4.
///
/// A local link of a dragonfly carries 2 L n / (a - 1) NICs: Kim's balance (a = 2p = 2h), with
/// which minimal routes of uniform traffic fit. Where uplinks are not oversubscribed they cannot
/// bind, and are left out. Holds for minimal, static routes: no adaptive or Valiant routing, no
/// hash collisions. Sources: Leiserson 1985 (fat trees); Kim, Dally, Scott, Abts, ISCA 2008
/// (dragonfly); Wang et al. 2023 (arXiv 2307.12169) and NVIDIA's DGX SuperPOD reference
/// architecture (rails).
class FabricTopology {
 public:
  explicit FabricTopology(const spec::Cluster& cluster);

  Route route(Port from, Port to) const;
  std::vector<double> capacities() const;  // by link, in NICs

 private:
  int64_t num_leaves() const;
  void through_tree(Route& route) const;
  void through_dragonfly(Route& route) const;
  int64_t gateway(int64_t group, int64_t to_group) const;
  int32_t local_link(int64_t group, int64_t from, int64_t to) const;

  spec::FabricKind kind_;
  int64_t nodes_, nics_, nodes_per_leaf_, rails_of_leaf_;
  bool hands_over_, uplinks_bind_;
  double oversubscription_;
  int64_t nodes_per_group_, groups_, leaves_of_group_;  // of a dragonfly
};

/// As the cluster says, or as many as make groups no fewer than the nodes in each.
int64_t dragonfly_group(const spec::Cluster& cluster);

/// neighbours: each node sends to the next (rings, trees). everyone: each sends alike to all.
enum class Traffic { neighbours, everyone };

/// What the fabric makes of a group's traffic, against a fabric in which only NICs count and every
/// step is one hop.
struct FabricPath {
  double taper = 1;       // by which layers above the leaves divide what a group gets
  double extra_hops = 0;  // mean switches in one step, beyond the first
};

/// N nodes, n NICs each; L nodes a leaf switch; o: oversubscription.
///
///   fat_tree, rail_optimized   taper = o for N > L, and 2 extra hops; in rails without
///                              NVLink, `everyone` needs the spine for any N
///   dragonfly  G nodes a group: `neighbours` have taper = o for N > G; `everyone`
///              max(1, o (N - N/g)/(N - 1)), what leaves a group of the N/g nodes in each of g.
///              Extra hops: 1 beyond a leaf, 3 beyond a group
///
/// Holds for a job whose nodes lie under leaves and groups in no order, which is what switched
/// fabrics are built for (so any step of a ring may cross); for routes as in FabricTopology.
FabricPath fabric_path(const spec::Cluster&, double nodes, Traffic);

}  // namespace triplepoint::perf
