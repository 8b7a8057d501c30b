// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <doctest/doctest.h>

#include "triplepoint/workload/schedule.h"

namespace triplepoint::trainer {
namespace {

/// A machine on which a send ends only when its receiver has taken the message before it: what
/// the transport relies on in the worst case (one posted receive per channel, no buffering).
class StrictMachine {
 public:
  StrictMachine(std::vector<workload::StageProgram> programs, int64_t chunks)
      : programs_(std::move(programs)),
        parts_(static_cast<int64_t>(programs_.size()) * chunks),
        at_(programs_.size()),
        pending_(programs_.size(), -1) {}

  bool plays_to_the_end() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < programs_.size(); ++stage)
        while (advance(stage))
          moved = true;
    }
    for (size_t stage = 0; stage < programs_.size(); ++stage)
      if (at_[stage] < programs_[stage].size() || pending_[stage] >= 0) return false;
    return true;
  }

 private:
  struct Channel {
    int64_t sent = 0, taken = 0;
  };

  bool advance(size_t stage) {
    if (pending_[stage] >= 0) {
      const Channel& channel = channels_[pending_[stage]];
      if (channel.sent - channel.taken > 1) return false;  // no posted receive yet
      pending_[stage] = -1;
      return true;
    }
    if (at_[stage] == programs_[stage].size()) return false;
    const workload::Action& action = programs_[stage][at_[stage]];
    const auto part =
        action.chunk * static_cast<int64_t>(programs_.size()) + static_cast<int64_t>(stage);
    const bool forward = action.kind == workload::ActionKind::forward;
    if (action.kind != workload::ActionKind::backward_weight && !exchange(stage, part, forward))
      return false;
    ++at_[stage];
    return true;
  }

  bool exchange(size_t stage, int64_t part, bool forward) {
    const int64_t from = forward ? part - 1 : part + 1, to = forward ? part + 1 : part - 1;
    if (from >= 0 && from < parts_) {
      Channel& channel = channels_[2 * part + (forward ? 0 : 1)];
      if (channel.sent == channel.taken) return false;
      ++channel.taken;
    }
    if (to < 0 || to >= parts_) return true;
    const int64_t out = 2 * to + (forward ? 0 : 1);
    ++channels_[out].sent;
    pending_[stage] = out;
    return true;
  }

  std::vector<workload::StageProgram> programs_;
  int64_t parts_;
  std::vector<size_t> at_;
  std::vector<int64_t> pending_;  // channel of the send that this stage waits for
  std::map<int64_t, Channel> channels_;
};

}  // namespace

TEST_CASE("no schedule deadlocks when a send waits for the receiver to take the one before") {
  using spec::Schedule;
  for (const int64_t stages : {1, 2, 3, 4, 8})
    for (const int64_t microbatches : {1, 2, 3, 4, 8, 16, 24})
      for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble})
        CHECK(StrictMachine(workload::build_schedule(schedule, stages, microbatches, 1), 1)
                  .plays_to_the_end());
}

TEST_CASE("nor does the interleaved one") {
  for (const int64_t stages : {2, 3, 4, 8})
    for (const int64_t rounds : {1, 2, 3})
      for (const int64_t chunks : {2, 3, 4})
        CHECK(StrictMachine(workload::build_schedule(spec::Schedule::interleaved, stages,
                                                     stages * rounds, chunks),
                            chunks)
                  .plays_to_the_end());
}

}  // namespace triplepoint::trainer
