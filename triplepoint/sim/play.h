// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::sim {

inline constexpr size_t action_kind_count = 4;

/// What one stage needs to play its program: how long each action takes on each of its chunks.
struct StageTimes {
  const workload::StageProgram* program = nullptr;
  std::vector<std::array<Seconds, action_kind_count>> durations;  // [chunk][ActionKind]
  Seconds send_next, send_previous;  // one boundary tensor on the way to the neighbour
};

struct PlayRules {
  Seconds gap;                   // host time before each action
  bool sends_block = true;       // the stream waits until its send is out (no PP overlap)
  Seconds start;                 // of the step's first action
};

/// One action as played. [ready, begin) waits for data; [end, end + sent) sends.
struct PlayedAction {
  workload::Action action;
  Seconds ready, begin, end, sent;
};
struct PlayedStage {
  std::vector<PlayedAction> actions;
  Seconds waited, sent, worked;  // sums
  Seconds finish;
};

/// Plays the programs of one pipeline as they depend on each other: an action begins when its stage is free and
/// its input has arrived. Every stage is a resource of its own, so the order of play does not matter.
/// Oracle: workload::bubble_fraction for equal stages without communication.
std::vector<PlayedStage> play(std::span<const StageTimes> stages, const PlayRules& rules);

}  // namespace triplepoint::sim
