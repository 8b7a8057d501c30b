// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/cluster.h"

namespace triplepoint::perf {

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
/// Sources: those of fabric_topology.h; Jain and Sabharwal, Optimal bucket algorithms for large MPI
/// collectives on torus interconnects, ICS 2010.
FabricPath fabric_path(const spec::Cluster&, const NodeGroup&, Traffic);

}  // namespace triplepoint::perf
