// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/sim/play.h"
#include "triplepoint/sim/wiring.h"

namespace triplepoint::sim {

/// A send that takes as long as the links allow: from `begin` on, over wire stage * 2 + Direction.
struct FlowStart {
  size_t wire = 0;
  Seconds begin;
};

/// One pipeline as its actions depend on each other. Plays as far as it can without knowing when
/// flows end; sends that nobody can slow down have a known end. Every stage is a resource of its
/// own, so the order in which stages are played does not matter.
class PipelinePlayer {
 public:
  PipelinePlayer(std::span<const StageTimes> stages, std::span<const Wire> wires, SendMode mode,
                 const PlayRules& rules);

  void begin();
  /// The flow over this wire has arrived.
  void arrive(size_t wire, Seconds time);
  /// Flows that have begun since they were last taken; no earlier than what made them begin.
  std::vector<FlowStart>& started() { return started_; }
  /// All programs must be through.
  std::vector<PlayedStage> take();

 private:
  /// Arrival times by virtual stage (chunk * stages + stage) and microbatch.
  using Mailbox = std::vector<Seconds>;

  struct Stage {
    const workload::Action* next = nullptr;
    const workload::Action* end = nullptr;
    const std::array<Seconds, action_kind_count>* durations = nullptr;
    Seconds free;
    const Seconds* awaits = nullptr;  // the mailbox cell it stands still for
    bool sending = false;             // its stream waits for a flow
  };
  struct Letter {
    size_t action = 0;  // of the sending stage
    Seconds* to = nullptr;
  };
  struct Channel {
    Seconds free;                 // the last send is through
    Seconds begin;                // of the flow in flight
    std::vector<Letter> letters;  // flows not yet through, in order
    size_t through = 0;
  };

  size_t cell(size_t virtual_stage, int32_t microbatch) const {
    return virtual_stage * microbatches_ + static_cast<size_t>(microbatch);
  }
  size_t virtual_stage(size_t stage, const workload::Action& action) const {
    return static_cast<size_t>(action.chunk) * stages_.size() + stage;
  }
  size_t receiver(size_t wire) const;
  const Seconds* input_of(size_t stage, const workload::Action& action) const;
  void play_from(size_t stage);
  bool play_next(size_t stage);
  void send_result(size_t stage, PlayedAction& played);
  void send(size_t wire, PlayedAction& played, Seconds* to);
  void start_flow(size_t wire);
  void deliver(size_t wire, Seconds* to, Seconds time);

  std::span<const Wire> wires_;
  SendMode mode_;
  PlayRules rules_;
  size_t microbatches_ = 0, last_virtual_ = 0;
  Mailbox forward_, backward_;
  std::vector<Stage> stages_;
  std::vector<PlayedStage> played_;
  std::vector<Channel> channels_;  // [wire]
  std::vector<size_t> can_go_on_;  // stages whose input has come
  std::vector<FlowStart> started_;
};

}  // namespace triplepoint::sim
