// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/telemetry/discover/discover.h"
#include "triplepoint/trace/nccl_tests/nccl_tests.h"

namespace triplepoint::telemetry {

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

Json draft_json(const ClusterDraft&, const NodeShape&);

}  // namespace triplepoint::telemetry
