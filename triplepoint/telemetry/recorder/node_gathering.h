// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/descriptor.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::telemetry {

/// A rank of this node, as it introduced itself.
struct NodeRank {
  int64_t pid = 0;
  std::optional<int32_t> rank, local_rank;
  std::optional<std::string> visible_devices;
  bool in_pci_order = true;
  std::vector<int64_t> all_pids = {};  // its own and those of its helpers
};

/// All calls of the recorder which one launch makes on one node meet in a folder that is named
/// after the launch. The first to lock a file there leads: it records; the others run their command
/// and hold a shared lock until it has ended.
class NodeGathering {
 public:
  /// `parent`: of this process; tells launches apart whose launcher gives no name. `base`: where
  /// such folders are, shared only by the ranks of the node.
  static Result<NodeGathering> join(const LaunchEnvironment& environment, int64_t parent,
                                    const Path& base);
  NodeGathering(NodeGathering&&) noexcept;
  NodeGathering& operator=(NodeGathering&&) = delete;
  NodeGathering(const NodeGathering&) = delete;
  NodeGathering& operator=(const NodeGathering&) = delete;
  ~NodeGathering();  // of the leader: removes the folder

  bool leads() const { return leads_; }
  Path marks() const { return folder_ / "marks"; }
  /// All processes that have arrived so far.
  std::vector<NodeRank> ranks() const;
  /// For the leader: whether all others have ended.
  bool others_have_left() const;

 private:
  NodeGathering() = default;
  Result<void> introduce(const LaunchEnvironment& environment);

  Path folder_;
  Descriptor lead_, present_;  // locked files
  bool leads_ = false;
};

/// The fastest folder that processes of a node share: /dev/shm, else TMPDIR, else /tmp.
Path shared_memory_folder(const Variable& variable);

}  // namespace triplepoint::telemetry
