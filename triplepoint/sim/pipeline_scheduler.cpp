// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/pipeline_scheduler.h"

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

PipelineScheduler::PipelineScheduler(std::span<const StageTimes> stages,
                                     std::span<const Wire> wires, SendMode mode,
                                     const ScheduleRules& rules)
    : wires_(wires),
      mode_(mode),
      rules_(rules),
      microbatches_(count_microbatches(*stages[0].program)),
      last_virtual_(stages.size() * stages[0].durations.size() - 1),
      forward_((last_virtual_ + 1) * microbatches_, not_yet),
      backward_(forward_),
      stages_(stages.size()),
      timelines_(stages.size()),
      channels_(2 * stages.size()) {
  TPT_EXPECT(wires.size() == channels_.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    const workload::StageProgram& program = *stages[s].program;
    stages_[s] = {.next = program.data(),
                  .end = program.data() + program.size(),
                  .durations = stages[s].durations.data(),
                  .free = rules.start};
    timelines_[s].actions.reserve(program.size());
  }
}

void PipelineScheduler::begin() {
  for (size_t s = 0; s < stages_.size(); ++s)
    run_from(s);
}

std::vector<StageTimeline> PipelineScheduler::take() {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s];
    TPT_EXPECT(stage.next == stage.end && !stage.sending);  // a valid schedule never locks up
    timelines_[s].finish = stage.free;
  }
  return std::move(timelines_);
}

size_t PipelineScheduler::receiver(size_t wire) const {
  const size_t n = stages_.size(), sender = wire / 2;
  const bool next = wire % 2 == static_cast<size_t>(Direction::next);
  return (next ? sender + 1 : sender + n - 1) % n;
}

/// Null: comes from the same stage, where it is there by program order.
const Seconds* PipelineScheduler::input_of(size_t stage, const Action& action) const {
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

void PipelineScheduler::run_from(size_t stage) {
  can_go_on_.push_back(stage);
  while (!can_go_on_.empty()) {
    const size_t s = can_go_on_.back();
    can_go_on_.pop_back();
    while (run_next(s)) {
    }
  }
}

bool PipelineScheduler::run_next(size_t s) {
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
  StageTimeline& sums = timelines_[s];
  ActionTimes& times = sums.actions.emplace_back();
  times.action = action;
  times.ready = stage.free;
  times.begin = std::max(stage.free, arrival);
  times.end = times.begin + rules_.gap +
              stage.durations[static_cast<size_t>(action.chunk)][static_cast<size_t>(action.kind)];
  stage.free = times.end;
  sums.waited += times.begin - times.ready;
  sums.worked += times.end - times.begin;
  send_result(s, times);
  return true;
}

void PipelineScheduler::send_result(size_t stage, ActionTimes& times) {
  const Action& action = times.action;
  const size_t v = virtual_stage(stage, action);
  if (action.kind == ActionKind::forward) {
    if (v < last_virtual_) send(2 * stage, times, &forward_[cell(v + 1, action.microbatch)]);
  } else if (action.kind != ActionKind::backward_weight && v > 0) {
    send(2 * stage + 1, times, &backward_[cell(v - 1, action.microbatch)]);
  }
}

void PipelineScheduler::send(size_t w, ActionTimes& times, Seconds* to) {
  Channel& channel = channels_[w];
  Stage& sender = stages_[w / 2];
  if (wires_[w].flow_class != Wire::no_flow) {
    sender.sending = mode_ == SendMode::blocking;
    channel.letters.push_back({timelines_[w / 2].actions.size() - 1, to});
    if (channel.letters.size() - channel.through == 1) start_flow(w);
    return;
  }
  const Seconds begin = std::max(times.end, channel.free);
  const Seconds arrival = begin + wires_[w].alone;
  channel.free = arrival;
  times.queued = begin - times.end;
  times.sent = arrival - begin;
  timelines_[w / 2].sent += times.sent;
  if (mode_ == SendMode::blocking) sender.free = arrival;
  deliver(w, to, arrival);
}

void PipelineScheduler::start_flow(size_t w) {
  Channel& channel = channels_[w];
  const ActionTimes& times = timelines_[w / 2].actions[channel.letters[channel.through].action];
  channel.begin = std::max(times.end, channel.free);
  started_.push_back({w, channel.begin});
}

void PipelineScheduler::arrive(size_t w, Seconds time) {
  Channel& channel = channels_[w];
  Stage& sender = stages_[w / 2];
  const Letter letter = channel.letters[channel.through++];
  ActionTimes& times = timelines_[w / 2].actions[letter.action];
  times.queued = channel.begin - times.end;
  times.sent = time - channel.begin;
  timelines_[w / 2].sent += times.sent;
  channel.free = time;
  if (channel.through < channel.letters.size()) start_flow(w);
  if (mode_ == SendMode::blocking) {
    sender.sending = false;
    sender.free = time;
  }
  deliver(w, letter.to, time);
  run_from(w / 2);
}

void PipelineScheduler::deliver(size_t w, Seconds* to, Seconds time) {
  *to = time;
  const size_t stage = receiver(w);
  if (stages_[stage].awaits != to) return;
  stages_[stage].awaits = nullptr;
  can_go_on_.push_back(stage);
}

}  // namespace triplepoint::sim
