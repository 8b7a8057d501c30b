// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/telemetry/sensor_opening.h"
#include "triplepoint/trace/nccl_tests/nccl_tests.h"

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
  std::optional<Bytes> memory;
  std::optional<Watts> power_limit, power_limit_default, power_limit_min;
  std::optional<Hertz> max_clock;
  std::vector<std::string> remarks;  // GPUs or NICs that differ, links that are down
};

/// Errors: no GPU, or GPUs of several models (a cluster's are all equal).
Result<NodeShape> shape_of(const Sensors&);

/// A number of this node beside the one that the library has for such a machine.
struct Comparison {
  std::string what;  // "NVLink of one GPU, one direction"
  std::string found, library;
  double ratio = 1;  // found over library
  std::string source;
  bool agrees() const { return ratio > 0.9 && ratio < 1.1; }
};

/// A cluster file of a node: what was found, on top of the library's machine around the same GPU.
struct ClusterDraft {
  std::string base, gpu;  // names in the library
  std::string toml;
  std::vector<Comparison> comparisons;
  std::vector<std::string> remarks;
};

/// `tests`: what nccl-tests printed on this machine; its large messages become the efficiencies.
/// Errors: a GPU the library does not know.
Result<ClusterDraft> draft_cluster(const spec::Library&, const telemetry::NodeShape&,
                                   const std::optional<trace::NcclTests>& tests);

}  // namespace triplepoint::telemetry
