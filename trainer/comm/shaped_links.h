// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::trainer {

class Transport;

/// Links between the nodes of a cluster that is not there. What stays in a node is left as fast as
/// it goes.
struct LinkShapes {
  std::vector<int> nodes;    // of each rank
  std::vector<int> nics;     // of each rank, counted through all nodes: ranks may share one
  BytesPerSecond bandwidth;  // of a NIC
  Seconds latency;
};

/// An emulated cluster's links: the NIC next to each rank, at the efficiency of a message between
/// two.
LinkShapes link_shapes(const spec::Cluster&, std::vector<int> nodes);

/// What a collective or message sends out of this rank's node.
struct NicLoad {
  double bytes = 0;       // of this rank
  double node_bytes = 0;  // of all members on its node
  int64_t steps = 0;      // latencies one after the other; 0: nothing leaves the node
};

/// When a collective or message is over, at the earliest, on NICs that are not there:
///
///   begin = max(the last member has come, NIC free);   NIC free = begin + bytes / bandwidth;
///   end   = max(NIC free, begin + bytes of the node / bandwidth) + steps latencies
///
/// A collective over N nodes of p ranks sends w (p-1)/p of its bytes out of each node, in w (N-1)
/// steps, w = 2 for an all-reduce and 1 for others, as a ring through the ranks in order does; an
/// all-to-all and a message send what goes to other nodes, in one step. Ranks that share a NIC
/// queue on it (where the transport lets them share a number; elsewhere each has its part of the
/// NIC's bandwidth). Times are CLOCK_MONOTONIC's of one machine. What arrives is not shaped: many
/// senders to one receiver do not share its link.
class ShapedLinks {
 public:
  ShapedLinks(LinkShapes, Transport&);

  NicLoad collective(spec::Collective, const std::vector<int>& ranks, double bytes) const;
  NicLoad message(int to, double bytes) const;
  /// Is a rank on another node than this one?
  bool leaves_node(int to) const { return node_of(to) != node_of(rank_); }

  int64_t free_ns() const { return nic_free_->load(); }
  /// Takes the NIC for a load; when that is over.
  int64_t take(int64_t begin_ns, const NicLoad&);

 private:
  int node_of(int rank) const { return shapes_.nodes[static_cast<size_t>(rank)]; }
  int64_t wire_ns(double bytes) const;

  LinkShapes shapes_;
  int rank_;
  std::atomic<int64_t> own_free_{0};
  std::atomic<int64_t>* nic_free_;
};

}  // namespace triplepoint::trainer
