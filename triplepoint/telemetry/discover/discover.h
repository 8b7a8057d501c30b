// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"

#include "triplepoint/telemetry/open_sensors.h"

namespace triplepoint::telemetry {

/// What the driver and the kernel say of this node's shape; absent: they do not say.
struct NodeShape {
  std::string host, model;  // model: "NVIDIA H200"
  int64_t gpus = 0;
  std::optional<spec::ScaleUpKind> scale_up;         // nvswitch, a mesh of direct links, PCIe only
  std::optional<BytesPerSecond> scale_up_bandwidth;  // of one GPU, one direction, all links
  int32_t links = 0;                                 // of one GPU
  int64_t nics = 0;                                  // that join nodes
  std::optional<BytesPerSecond> nic_bandwidth;       // of each
  NicKind nic_kind = NicKind::ethernet;
  std::optional<Bytes> memory;
  std::optional<Watts> power_limit, power_limit_default, power_limit_min;
  std::optional<Hertz> max_clock;
  std::vector<std::string> remarks;  // GPUs or NICs that differ, links that are down
};

/// Errors: no GPU, or GPUs of several models (a cluster's are all equal).
Result<NodeShape> shape_of(const Sensors&);

}  // namespace triplepoint::telemetry
