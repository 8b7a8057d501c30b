// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "trainer/comm/communicator.h"
#include "trainer/model/parameter.h"
#include "trainer/runtime/parameter_store.h"

namespace triplepoint::trainer {

/// Elements of one parameter as a rank holds them: in order, elements [first, first + count) of the
/// part that `rows` and `first_column` describe.
struct SavedBlock {
  Parameter shape;  // name, whole size, rows, columns; no values
  int64_t first = 0;
  std::vector<float> master, first_moment, second_moment;  // moments empty where frozen
};

/// Text of a file of blocks: a magic word, the blocks, a checksum.
class BlockWriter {
 public:
  BlockWriter();
  void add(const Parameter&, int64_t first, std::span<const float> master,
           std::span<const float> first_moment, std::span<const float> second_moment);
  std::string take();

 private:
  std::string text_;
};

/// The blocks of one file, by name of their parameter.
Result<void> read_blocks(const Path& file, std::multimap<std::string, SavedBlock>& blocks);

/// Where a training stands between two steps.
struct TrainState {
  int64_t step = 0;  // finished ones; the next one's number
  uint64_t seed = 1;
  double loss = 0;  // of the last finished step
};

/// Checkpoints of one training in one folder: step-00000040/rank-0003.tpt and manifest.json.
///
/// A rank's file holds blocks of parameters with their whole coordinates, masters and moments.
/// Every file is written beside its name, synced and renamed; the manifest, which names them all
/// with their sizes, comes last. A folder without one is not there. So a kill at any moment leaves
/// the checkpoint before; and a training laid out otherwise finds what it needs by name and place.
class Checkpoints {
 public:
  /// `world`: all ranks.
  Checkpoints(Path folder, Communicator& world) : folder_(std::move(folder)), world_(world) {}

  /// All ranks together. Afterwards the two newest ones are kept.
  Result<void> write(const TrainState&, ParameterStore&, const RankGroups&);
  /// The newest whole one, into the store; nothing where there is none.
  Result<std::optional<TrainState>> read(ParameterStore&);

 private:
  void remove_old(int64_t newest) const;

  Path folder_;
  Communicator& world_;
};

}  // namespace triplepoint::trainer
