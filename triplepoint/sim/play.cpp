// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/play.h"

#include <algorithm>
#include <limits>

#include "triplepoint/base/expect.h"

namespace triplepoint::sim {
namespace {

using workload::Action;
using workload::ActionKind;

constexpr Seconds not_yet(std::numeric_limits<double>::infinity());

/// Arrival times of boundary tensors at each virtual stage (chunk * stages + stage), per microbatch.
class Mailbox {
 public:
  Mailbox(size_t virtual_stages, size_t microbatches)
      : microbatches_(microbatches), arrivals_(virtual_stages * microbatches, not_yet) {}
  Seconds& at(size_t virtual_stage, int32_t microbatch) {
    return arrivals_[virtual_stage * microbatches_ + static_cast<size_t>(microbatch)];
  }

 private:
  size_t microbatches_;
  std::vector<Seconds> arrivals_;
};

size_t count_microbatches(const workload::StageProgram& program) {
  int32_t last = 0;
  for (const Action& action : program) last = std::max(last, action.microbatch);
  return static_cast<size_t>(last) + 1;
}

class Player {
 public:
  Player(std::span<const StageTimes> stages, const PlayRules& rules)
      : stages_(stages),
        rules_(rules),
        last_virtual_(stages.size() * stages[0].durations.size() - 1),
        forward_(last_virtual_ + 1, count_microbatches(*stages[0].program)),
        backward_(last_virtual_ + 1, count_microbatches(*stages[0].program)),
        played_(stages.size()),
        free_(stages.size(), rules.start) {}

  std::vector<PlayedStage> run() {
    for (size_t s = 0; s < stages_.size(); ++s) played_[s].actions.reserve(stages_[s].program->size());
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t s = 0; s < stages_.size(); ++s)
        while (play_next(s)) progress = true;
    }
    for (size_t s = 0; s < stages_.size(); ++s) {
      TPT_EXPECT(played_[s].actions.size() == stages_[s].program->size());  // a valid schedule never locks up
      played_[s].finish = free_[s];
    }
    return std::move(played_);
  }

 private:
  size_t virtual_stage(size_t stage, const Action& action) const {
    return static_cast<size_t>(action.chunk) * stages_.size() + stage;
  }

  /// When the input of an action is there; what comes from the same stage is there by program order.
  Seconds input_arrival(size_t stage, const Action& action) {
    const size_t v = virtual_stage(stage, action);
    switch (action.kind) {
      case ActionKind::forward: return v == 0 ? Seconds() : forward_.at(v, action.microbatch);
      case ActionKind::backward:
      case ActionKind::backward_input:
        return v == last_virtual_ ? Seconds() : backward_.at(v, action.microbatch);
      case ActionKind::backward_weight: return Seconds();
    }
    return Seconds();
  }

  bool play_next(size_t stage) {
    PlayedStage& played = played_[stage];
    const workload::StageProgram& program = *stages_[stage].program;
    if (played.actions.size() == program.size()) return false;
    const Action& action = program[played.actions.size()];
    const Seconds arrival = input_arrival(stage, action);
    if (arrival == not_yet) return false;
    const StageTimes& times = stages_[stage];
    PlayedAction step{.action = action, .ready = free_[stage], .begin = {}, .end = {}, .sent = {}};
    step.begin = std::max(free_[stage], arrival);
    step.end = step.begin + rules_.gap +
               times.durations[static_cast<size_t>(action.chunk)][static_cast<size_t>(action.kind)];
    step.sent = deliver(stage, action, step.end);
    free_[stage] = rules_.sends_block ? step.end + step.sent : step.end;
    played.waited += step.begin - step.ready;
    played.worked += step.end - step.begin;
    played.sent += step.sent;
    played.actions.push_back(step);
    return true;
  }

  /// Hands the result to the neighbour; returns the time on the wire.
  Seconds deliver(size_t stage, const Action& action, Seconds end) {
    const size_t v = virtual_stage(stage, action);
    if (action.kind == ActionKind::forward && v < last_virtual_) {
      const Seconds wire = stages_.size() > 1 ? stages_[stage].send_next : Seconds();
      forward_.at(v + 1, action.microbatch) = end + wire;
      return wire;
    }
    const bool gives_gradient = action.kind == ActionKind::backward || action.kind == ActionKind::backward_input;
    if (gives_gradient && v > 0) {
      const Seconds wire = stages_.size() > 1 ? stages_[stage].send_previous : Seconds();
      backward_.at(v - 1, action.microbatch) = end + wire;
      return wire;
    }
    return Seconds();
  }

  std::span<const StageTimes> stages_;
  const PlayRules& rules_;
  size_t last_virtual_;
  Mailbox forward_, backward_;
  std::vector<PlayedStage> played_;
  std::vector<Seconds> free_;
};

}  // namespace

std::vector<PlayedStage> play(std::span<const StageTimes> stages, const PlayRules& rules) {
  return Player(stages, rules).run();
}

}  // namespace triplepoint::sim
