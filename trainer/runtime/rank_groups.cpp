// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/rank_groups.h"

#include <algorithm>

namespace triplepoint::trainer {

RankGroups::RankGroups(const workload::RankGrid& grid, int rank, const MakeCommunicator& make) {
  for (size_t kind = 0; kind < groups_.size(); ++kind) {
    auto members = grid.members(static_cast<spec::GroupKind>(kind), rank);
    // Stages between the ends of the pipeline are in no embedding group.
    if (std::find(members.begin(), members.end(), rank) == members.end()) members = {rank};
    groups_[kind] = make(static_cast<spec::GroupKind>(kind), {members.begin(), members.end()});
  }
}

}  // namespace triplepoint::trainer
