// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/op.h"

#include "triplepoint/workload/rank_grid.h"

#include "trainer/comm/communicator.h"

namespace triplepoint::trainer {

/// Makes a communicator of a kind among ranks of the job, in group order.
using MakeCommunicator =
    std::function<std::unique_ptr<Communicator>(spec::GroupKind, const std::vector<int>& ranks)>;

/// The groups that one rank is a member of, one per kind.
class RankGroups {
 public:
  RankGroups(const workload::RankGrid&, int rank, const MakeCommunicator&);

  Communicator& of(spec::GroupKind kind) const { return *groups_[as_size(kind)]; }

 private:
  std::array<std::unique_ptr<Communicator>, spec::group_kind_count> groups_;
};

/// A failure of one rank ends all ranks. All ranks call it. A rank that did not
/// fail itself gets a sentence about those that did; of equal failures only rank 0 keeps its own
/// (others get an empty one, which is not printed).
Result<void> agree(Communicator& world, const Result<void>& mine, const char* act);

}  // namespace triplepoint::trainer
