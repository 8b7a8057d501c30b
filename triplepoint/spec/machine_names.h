// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// The library's GPU for the name that a driver or a table gives it ("NVIDIA H100 80GB HBM3",
/// "h200_sxm"), or nothing.
std::optional<std::string> gpu_named(std::string_view spelling);

/// The library's cluster whose nodes usually hold this GPU, or nothing.
std::optional<std::string> usual_cluster(std::string_view gpu);

/// The usual cluster of this GPU, cut to so many devices: whole nodes, or a part of one.
Result<spec::Cluster> usual_machine(const spec::Library&, std::string_view spelling, int64_t gpus);

/// One direction out of a node, as a note says it ("8x HDR200 IB per node"), or nothing.
std::optional<BytesPerSecond> node_bandwidth_in(std::string_view note, int64_t gpus_per_node);

}  // namespace triplepoint::spec
