// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/sim/simulate_schedule.h"
#include "triplepoint/sim/wiring.h"

namespace triplepoint::sim {

/// A send that takes as long as the links allow: from `begin` on, over wire stage * 2 + Direction.
struct FlowStart {
  size_t wire = 0;
  Seconds begin;
};

/// One pipeline as its actions depend on each other. Simulates as far as it can without knowing
/// when flows end; sends that nobody can slow down have a known end. Every stage is a resource of
/// its own, so the order in which stages are simulated does not matter.
class PipelineScheduler {
 public:
  PipelineScheduler(std::span<const StageTimes> stages, std::span<const Wire> wires, SendMode mode,
                    const ScheduleRules& rules);

  void begin();
  /// The flow over this wire has arrived.
  void arrive(size_t wire, Seconds time);
  /// Flows that have begun since they were last taken; no earlier than what made them begin.
  std::vector<FlowStart>& started() { return started_; }
  /// All programs must be through.
  std::vector<StageTimeline> take();

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
  void run_from(size_t stage);
  bool run_next(size_t stage);
  void send_result(size_t stage, ActionTimes& times);
  void send(size_t wire, ActionTimes& times, Seconds* to);
  void start_flow(size_t wire);
  void deliver(size_t wire, Seconds* to, Seconds time);

  std::span<const Wire> wires_;
  SendMode mode_;
  ScheduleRules rules_;
  size_t microbatches_ = 0, last_virtual_ = 0;
  Mailbox forward_, backward_;
  std::vector<Stage> stages_;
  std::vector<StageTimeline> timelines_;
  std::vector<Channel> channels_;  // [wire]
  std::vector<size_t> can_go_on_;  // stages whose input has come
  std::vector<FlowStart> started_;
};

}  // namespace triplepoint::sim
