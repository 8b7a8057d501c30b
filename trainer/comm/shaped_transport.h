// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"

#include "triplepoint/mark/mark.h"

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// What one rank's messages of one class of hops get. Zero bandwidth: as fast as they go.
struct HopShape {
  BytesPerSecond bandwidth;
  Seconds latency;
  bool is_shaped() const { return bandwidth / (unit::B / unit::s) > 0 || latency > Seconds{}; }
};

struct LinkShapes {
  std::vector<int> nodes;    // of each rank
  std::vector<int> nics;     // of each rank, counted through all nodes: ranks may share one
  HopShape in_node, across;  // of one rank's link; of one NIC
};

/// An emulated cluster's links. Across nodes: the NIC next to each rank, at the efficiency of a
/// message between two; what stays in a node is left as fast as it goes.
LinkShapes link_shapes(const spec::Cluster&, std::vector<int> nodes);

/// Pieces of groups across nodes: 256 kB over the ranks that share a NIC. As much then queues on it
/// as with one rank, and it waits less for the first piece.
int64_t across_segment_bytes(const LinkShapes&);

/// Slows another transport's messages down to links of a cluster that is not there.
///
///   departure = max(now, link free);  link free = departure + bytes / bandwidth;
///   arrival = link free + latency
///
/// Messages queue on each outgoing link, those of all ranks that share a NIC on one (where the
/// transport lets ranks share a number; elsewhere each has its part of the NIC's bandwidth). Before
/// a shaped message goes a stamp with the time of its arrival (CLOCK_MONOTONIC of one machine); the
/// receiver gets the message no earlier. The bytes move at once, so the sender need not look after
/// them. What arrives is not shaped: many senders to one receiver do not share its link.
/// `now`: of a clock in nanoseconds.
std::unique_ptr<Transport> shaped_transport(std::unique_ptr<Transport>, LinkShapes,
                                            int64_t (*now)() = triplepoint_now);

}  // namespace triplepoint::trainer
