// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {

RankGroups::RankGroups(const workload::RankGrid& grid, int rank, const MakeCommunicator& make) {
  for (size_t kind = 0; kind < groups_.size(); ++kind) {
    auto members = grid.members(static_cast<spec::GroupKind>(kind), rank);
    // Stages between the ends of the pipeline are in no embedding group.
    if (!holds(members, rank)) members = {rank};
    groups_[kind] = make(static_cast<spec::GroupKind>(kind), {members.begin(), members.end()});
  }
}

Result<void> agree(Communicator& world, const Result<void>& mine, const char* act) {
  const float failed = mine ? 0.0F : 1.0F;
  std::array<float, 2> sums = {failed, world.index() == 0 ? failed : 0.0F};
  world.all_reduce(sums).wait();
  if (sums[0] == 0) return {};
  if (world.index() == 0 && sums[1] > 0) return mine;
  if (sums[1] > 0) return error("");
  if (!mine) return mine;
  if (world.index() > 0) return error("");
  return error("{:.0f} ranks could not {} (see their messages); give all ranks the same inputs",
               sums[0], act);
}

}  // namespace triplepoint::trainer
