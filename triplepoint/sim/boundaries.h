// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/sim/conditions.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/wiring.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// What one rank sends at once over a boundary: the tensors of the microbatches that leave
/// together; under scatter-gather the rank's part of what all tensor ranks hold.
Bytes send_size(const spec::Job& job, const workload::WorkGraph& graph);

/// How the tensors between stages travel: what one rank's part costs alone, and which links it
/// meets others on.
struct BoundaryEstimates {
  std::vector<std::vector<std::array<perf::CollectiveTime, 2>>>
      estimates;                                         // [pipeline][stage][Direction]
  std::vector<std::vector<StageBoundaries>> boundaries;  // [pipeline][stage]
  std::vector<BytesPerSecond> capacities;                // [link]
};

/// Links are the NICs of every node, outwards and inwards apart, and those of the fabric beyond
/// them which can bind (perf::FabricTopology): uplinks of leaf switches, local
/// and global links of a dragonfly. A device sends and receives over the NIC next to it,
/// floor(local * nics / devices of the node), or over its peer's rail where it hands its tensor
/// over. Inside a domain every device has its own port, and no other tensors are on it.
///
///   capacity of a NIC = what one message of this size reaches on it (perf::point_to_point_time)
///   latency           = the fabric's, hop_latency for each switch beyond the first, and scale-up's
///                       for handing over
///
/// A send over n NICs uses the one next to the device and those behind it, a share of 1/n of each.
/// Under scatter-gather the receivers gather the tensor in their tensor group behind the send.
///
/// so that n messages over one NIC take n times as long as one: sends of stages are not
/// coordinated, and many small ones do not fill a link better than a single one. Source of that:
/// the SendRecv times of TP against PP in "Characterizing the Efficiency of Distributed Training"
/// (MICRO'25, arXiv 2509.10371).
///
/// Where faults leave a share of the bandwidth, `conditions` says so: a tensor between two devices
/// goes at the slower one's.
BoundaryEstimates estimate_boundaries(const spec::Job& job, const workload::WorkGraph& graph,
                                      std::span<const Pipeline> pipelines,
                                      const Conditions* conditions = nullptr);

}  // namespace triplepoint::sim
