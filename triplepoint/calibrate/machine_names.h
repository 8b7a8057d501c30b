// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::calibrate {

/// The machine that a table means, as far as it says, and in words what had to be assumed.
struct MachineChoice {
  spec::Cluster cluster;
  std::vector<std::string> assumptions;
};

/// The cluster of a GPU that a table spells in its own way, cut to so many devices: whole nodes
/// (8 or 4 devices), or a part of one. `note` may say what joins the nodes: "400 Gbps inter-node",
/// "8x HDR200 IB per node", "400Gbps RoCE per GPU", "EFA".
Result<MachineChoice> machine_of(const spec::Library&, std::string_view gpu, std::string_view note,
                                 int64_t gpus);

/// The library's cluster that holds this GPU by default, or in Amazon's cloud where the note names
/// EFA; nothing for a GPU nobody knows.
std::optional<std::string> cluster_with(std::string_view gpu_spelling, std::string_view note = {});

/// One direction out of a node, as the note says it; nothing if it does not.
std::optional<BytesPerSecond> node_bandwidth_in(std::string_view note, int64_t gpus_per_node);

/// The same node with only its first devices in use. Their seats, links and share of the adapters
/// stay what they are.
spec::Cluster part_of_node(spec::Cluster, int64_t gpus);

}  // namespace triplepoint::calibrate
