// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/pipeline_player.h"

#include <algorithm>
#include <limits>

#include "triplepoint/base/expect.h"

namespace triplepoint::sim {
namespace {

using workload::Action;
using workload::ActionKind;

constexpr Seconds not_yet(std::numeric_limits<double>::infinity());

size_t count_microbatches(const workload::StageProgram& program) {
  int32_t last = 0;
  for (const Action& action : program)
    last = std::max(last, action.microbatch);
  return static_cast<size_t>(last) + 1;
}

}  // namespace

PipelinePlayer::PipelinePlayer(std::span<const StageTimes> stages, std::span<const Wire> wires,
                               SendMode mode, const PlayRules& rules)
    : wires_(wires),
      mode_(mode),
      rules_(rules),
      microbatches_(count_microbatches(*stages[0].program)),
      last_virtual_(stages.size() * stages[0].durations.size() - 1),
      forward_((last_virtual_ + 1) * microbatches_, not_yet),
      backward_(forward_),
      stages_(stages.size()),
      played_(stages.size()),
      channels_(2 * stages.size()) {
  TPT_EXPECT(wires.size() == channels_.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    const workload::StageProgram& program = *stages[s].program;
    stages_[s] = {.next = program.data(),
                  .end = program.data() + program.size(),
                  .durations = stages[s].durations.data(),
                  .free = rules.start};
    played_[s].actions.reserve(program.size());
  }
}

void PipelinePlayer::begin() {
  for (size_t s = 0; s < stages_.size(); ++s)
    play_from(s);
}

std::vector<PlayedStage> PipelinePlayer::take() {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s];
    TPT_EXPECT(stage.next == stage.end && !stage.sending);  // a valid schedule never locks up
    played_[s].finish = stage.free;
  }
  return std::move(played_);
}

size_t PipelinePlayer::receiver(size_t wire) const {
  const size_t n = stages_.size(), sender = wire / 2;
  const bool next = wire % 2 == static_cast<size_t>(Direction::next);
  return (next ? sender + 1 : sender + n - 1) % n;
}

/// Null: comes from the same stage, where it is there by program order.
const Seconds* PipelinePlayer::input_of(size_t stage, const Action& action) const {
  const size_t v = virtual_stage(stage, action);
  switch (action.kind) {
    case ActionKind::forward:
      return v == 0 ? nullptr : &forward_[cell(v, action.microbatch)];
    case ActionKind::backward:
    case ActionKind::backward_input:
      return v == last_virtual_ ? nullptr : &backward_[cell(v, action.microbatch)];
    case ActionKind::backward_weight:
      return nullptr;
  }
  return nullptr;
}

void PipelinePlayer::play_from(size_t stage) {
  can_go_on_.push_back(stage);
  while (!can_go_on_.empty()) {
    const size_t s = can_go_on_.back();
    can_go_on_.pop_back();
    while (play_next(s)) {
    }
  }
}

bool PipelinePlayer::play_next(size_t s) {
  Stage& stage = stages_[s];
  if (stage.sending || stage.next == stage.end) return false;
  const Action& action = *stage.next;
  Seconds arrival;
  if (const Seconds* input = input_of(s, action)) {
    arrival = *input;
    if (arrival == not_yet) {
      stage.awaits = input;
      return false;
    }
  }
  ++stage.next;
  PlayedStage& sums = played_[s];
  PlayedAction& played = sums.actions.emplace_back();
  played.action = action;
  played.ready = stage.free;
  played.begin = std::max(stage.free, arrival);
  played.end = played.begin + rules_.gap +
               stage.durations[static_cast<size_t>(action.chunk)][static_cast<size_t>(action.kind)];
  stage.free = played.end;
  sums.waited += played.begin - played.ready;
  sums.worked += played.end - played.begin;
  send_result(s, played);
  return true;
}

void PipelinePlayer::send_result(size_t stage, PlayedAction& played) {
  const Action& action = played.action;
  const size_t v = virtual_stage(stage, action);
  if (action.kind == ActionKind::forward) {
    if (v < last_virtual_) send(2 * stage, played, &forward_[cell(v + 1, action.microbatch)]);
  } else if (action.kind != ActionKind::backward_weight && v > 0) {
    send(2 * stage + 1, played, &backward_[cell(v - 1, action.microbatch)]);
  }
}

void PipelinePlayer::send(size_t w, PlayedAction& played, Seconds* to) {
  Channel& channel = channels_[w];
  Stage& sender = stages_[w / 2];
  if (wires_[w].flow_class != Wire::no_flow) {
    sender.sending = mode_ == SendMode::blocking;
    channel.letters.push_back({played_[w / 2].actions.size() - 1, to});
    if (channel.letters.size() - channel.through == 1) start_flow(w);
    return;
  }
  const Seconds begin = std::max(played.end, channel.free);
  const Seconds arrival = begin + wires_[w].alone;
  channel.free = arrival;
  played.queued = begin - played.end;
  played.sent = arrival - begin;
  played_[w / 2].sent += played.sent;
  if (mode_ == SendMode::blocking) sender.free = arrival;
  deliver(w, to, arrival);
}

void PipelinePlayer::start_flow(size_t w) {
  Channel& channel = channels_[w];
  const PlayedAction& played = played_[w / 2].actions[channel.letters[channel.through].action];
  channel.begin = std::max(played.end, channel.free);
  started_.push_back({w, channel.begin});
}

void PipelinePlayer::arrive(size_t w, Seconds time) {
  Channel& channel = channels_[w];
  Stage& sender = stages_[w / 2];
  const Letter letter = channel.letters[channel.through++];
  PlayedAction& played = played_[w / 2].actions[letter.action];
  played.queued = channel.begin - played.end;
  played.sent = time - channel.begin;
  played_[w / 2].sent += played.sent;
  channel.free = time;
  if (channel.through < channel.letters.size()) start_flow(w);
  if (mode_ == SendMode::blocking) {
    sender.sending = false;
    sender.free = time;
  }
  deliver(w, letter.to, time);
  play_from(w / 2);
}

void PipelinePlayer::deliver(size_t w, Seconds* to, Seconds time) {
  *to = time;
  const size_t stage = receiver(w);
  if (stages_[stage].awaits != to) return;
  stages_[stage].awaits = nullptr;
  can_go_on_.push_back(stage);
}

}  // namespace triplepoint::sim
