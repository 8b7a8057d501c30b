// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "trainer/comm/communicator.h"
#include "trainer/runtime/folder_lock.h"
#include "trainer/runtime/manifest.h"
#include "trainer/runtime/parameter_store.h"
#include "trainer/runtime/saved_blocks.h"

namespace triplepoint::trainer {

/// Where a training stands between two steps.
struct TrainState {
  int64_t step = 0;  // finished ones; the next one's number
  double loss = 0;   // of the last finished step
};

/// Checkpoints of one training in one folder: step-00000040/rank-0003.tpt and manifest.json.
///
/// A rank's file holds blocks of parameters with their whole coordinates, masters and moments.
/// Every file is written beside its name, synced and renamed; the manifest, which names them all
/// with their checksums, comes last. A folder without one is not there. So a kill at any moment
/// leaves the checkpoint before; and a training laid out otherwise finds what it needs by name and
/// place.
class Checkpoints {
 public:
  /// `world`: all ranks.
  Checkpoints(Path folder, TrainIdentity identity, Communicator& world)
      : folder_(std::move(folder)), identity_(std::move(identity)), world_(world) {}

  /// Keeps other trainings out for as long as this lives, and removes what a kill has left without
  /// a manifest. Refuses a folder that has checkpoints where none is to be resumed.
  Result<void> open(bool resume);
  /// All ranks together. Afterwards the two newest ones are kept.
  Result<void> write(const TrainState&, ParameterStore&, const RankGroups&);
  /// The newest whole one, into the store; nothing where there is none.
  Result<std::optional<TrainState>> read(ParameterStore&);

 private:
  void remove(int64_t step) const;
  void remove_old(int64_t newest) const;

  Path folder_;
  TrainIdentity identity_;
  FolderLock lock_;  // of rank 0
  Communicator& world_;
};

}  // namespace triplepoint::trainer
