// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/sim/wiring.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::sim {

inline constexpr size_t action_kind_count = 4;

/// What one stage needs to run its program: how long each action takes on each of its chunks.
struct StageTimes {
  const workload::StageProgram* program = nullptr;
  std::vector<std::array<Seconds, action_kind_count>> durations;  // [chunk][ActionKind]
  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

struct ScheduleRules {
  Seconds gap;    // host time before each action
  Seconds start;  // of the step's first action
};

/// When one action runs. [ready, begin) waits for data; [end + queued, end + queued + sent) sends.
struct ActionTimes {
  workload::Action action;
  Seconds ready, begin, end;
  Seconds queued;  // behind earlier sends over the same boundary; zero where sends block
  Seconds sent;    // latency, and data at the rates the links allowed
};
struct StageTimeline {
  std::vector<ActionTimes> actions;
  Seconds waited, sent, worked;  // sums
  Seconds finish;
};

/// What can make a send of one pipeline take longer than it takes alone.
enum class Delays {
  none,         // nothing: sends take Wire::alone
  shared_links  // other flows: a send over a wire with a flow class ends when end_send() is called
};

/// A send that has begun and whose end others determine. `of`: the wire (stage * 2 + Direction).
struct Begun {
  size_t of = 0;
  Seconds begin;
};

/// One pipeline as its actions depend on each other: every stage runs its program in order, each
/// action as soon as the stage is free and the action's input has arrived.
///
///   begin   = max(stage is free, arrival of the input)
///   end     = begin + gap + duration
///   arrival = max(end, wire is free) + alone      (shared_links: end_send)
///
/// Where microbatches are sent together, a send leaves behind the last of them and brings the
/// inputs of all; their number divides that of the step's microbatches.
///
/// Needs no event queue: a stage runs on until it misses an input and continues when that arrives,
/// so an action costs constant time, about 11 ns without a record. Every stage is its own resource,
/// so the order in which stages run here does not enter the result. Only where others determine an
/// end does time have to pass for all of them together: begun() then names what has begun, and an
/// event loop (flow_simulation.h) reports the ends. Memory needs no schedule: it depends on the
/// order of a stage's own program alone (workload/memory.h).
///
/// Record: what is kept of a schedule (TimelineRecord, search::SendRecord). Buffers are kept
/// from one schedule to the next.
template <class Record, Delays delays>
class ScheduleEngine {
 public:
  void start(std::span<const StageTimes> stages, std::span<const Wire> wires, SendMode mode,
             const ScheduleRules& rules);
  /// Runs as far as possible without knowing the ends that others determine.
  void run() {
    for (size_t s = 0; s < stages_.size(); ++s)
      run_from(s);
  }

  /// What has begun since this was last cleared; no earlier than what made it begin.
  std::vector<Begun>& begun() { return begun_; }
  /// The send over this wire has arrived; the next one in its queue begins.
  void end_send(size_t wire, Seconds time);

  /// Of a schedule that is complete.
  Seconds finish(size_t stage) const {
    TPT_EXPECT(stages_[stage].next == stages_[stage].end);  // a valid schedule never locks up
    TPT_EXPECT(!stages_[stage].held);
    return Seconds(stages_[stage].free);
  }
  Record& record() { return record_; }
  const Record& record() const { return record_; }

 private:
  struct Stage {
    const workload::Action* next = nullptr;
    const workload::Action* end = nullptr;
    const std::array<Seconds, action_kind_count>* durations = nullptr;
    const double* awaits = nullptr;  // the arrival it stands still for
    double free = 0;
    bool held = false;  // its stream waits for a send, or its action for cores
  };
  /// A send whose end others determine.
  struct Letter {
    size_t action = 0;  // of the record
    double ready = 0;   // its action's end
    double* to = nullptr;
    size_t receiver = 0;
  };
  struct Channel {
    double begin = 0;             // of the send in flight
    std::vector<Letter> letters;  // in order; those before `through` have arrived
    size_t through = 0;
  };

  // Times are plain seconds here: this is the search's inner loop, and compilers make twice the
  // code of a comparison of quantities.
  static constexpr double not_yet = std::numeric_limits<double>::infinity();

  double* cell(std::vector<double>& arrivals, size_t virtual_stage, int32_t microbatch) {
    // What is sent together arrives together.
    if (together_ > 1) microbatch /= together_;
    return &arrivals[virtual_stage * microbatches_ + as_size(microbatch)];
  }
  const double* input_of(const workload::Action& action, size_t virtual_stage);
  void run_from(size_t stage);
  bool run_next(size_t stage);
  void end_at(size_t stage, const workload::Action& action, double end);
  void send(size_t wire, size_t receiver, double* to);
  void start_send(size_t wire);
  void deliver(size_t receiver, double* to, double time);

  std::span<const Wire> wires_;
  SendMode mode_ = SendMode::blocking;
  double gap_ = 0;
  size_t microbatches_ = 0, last_virtual_ = 0;
  int32_t together_ = 1;  // microbatches of a send
  // Arrivals by virtual stage (chunk * stages + stage) and microbatch.
  std::vector<double> forward_, backward_;
  std::vector<Stage> stages_;
  std::vector<double> wire_free_;  // [wire]: its last send is through
  std::vector<Channel> channels_;  // [wire], where links are shared
  std::vector<size_t> can_go_on_;  // stages whose input has come
  std::vector<Begun> begun_;
  Record record_;
};

/// Keeps every action and send, and their sums.
class TimelineRecord {
 public:
  void start(std::span<const StageTimes> stages) {
    stages_.assign(stages.size(), {});
    for (size_t s = 0; s < stages.size(); ++s)
      stages_[s].actions.reserve(stages[s].program->size());
  }
  void begin_action(size_t stage, const workload::Action& action, Seconds ready, Seconds begin) {
    stages_[stage].actions.push_back({.action = action, .ready = ready, .begin = begin});
    stages_[stage].waited += begin - ready;
  }
  void end_action(size_t stage, Seconds end) {
    ActionTimes& times = stages_[stage].actions.back();
    times.end = end;
    stages_[stage].worked += end - times.begin;
  }
  size_t last_action(size_t stage) const { return stages_[stage].actions.size() - 1; }
  void send(size_t wire, size_t action, Seconds begin, Seconds arrival) {
    StageTimeline& stage = stages_[wire / 2];
    ActionTimes& times = stage.actions[action];
    times.queued = begin - times.end;
    times.sent = arrival - begin;
    stage.sent += times.sent;
  }
  std::vector<StageTimeline> take() { return std::move(stages_); }

 private:
  std::vector<StageTimeline> stages_;
};

using LinkedPipeline = ScheduleEngine<TimelineRecord, Delays::shared_links>;

/// The timeline of a schedule that is complete.
template <Delays delays>
std::vector<StageTimeline> take_timeline(ScheduleEngine<TimelineRecord, delays>& engine) {
  std::vector<StageTimeline> stages = engine.record().take();
  for (size_t s = 0; s < stages.size(); ++s)
    stages[s].finish = engine.finish(s);
  return stages;
}

inline size_t count_microbatches(const workload::StageProgram& program) {
  int32_t last = 0;
  for (const workload::Action& action : program)
    last = std::max(last, action.microbatch);
  return as_size(last) + 1;
}

template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::start(std::span<const StageTimes> stages,
                                           std::span<const Wire> wires, SendMode mode,
                                           const ScheduleRules& rules) {
  TPT_EXPECT(wires.size() == 2 * stages.size());
  wires_ = wires;
  mode_ = mode;
  gap_ = rules.gap.in_base_units();
  microbatches_ = count_microbatches(*stages[0].program);
  together_ = 1;
  for (const Wire& wire : wires)
    together_ = std::max(together_, wire.microbatches);
  last_virtual_ = stages.size() * stages[0].durations.size() - 1;
  forward_.assign((last_virtual_ + 1) * microbatches_, not_yet);
  backward_.assign(forward_.size(), not_yet);
  wire_free_.assign(wires.size(), 0);
  if constexpr (delays == Delays::shared_links) channels_.assign(wires.size(), {});
  stages_.clear();
  for (const StageTimes& stage : stages)
    stages_.push_back({.next = stage.program->data(),
                       .end = stage.program->data() + stage.program->size(),
                       .durations = stage.durations.data(),
                       .awaits = nullptr,
                       .free = rules.start.in_base_units()});
  begun_.clear();
  record_.start(stages);
}

/// Null: comes from the same stage, where it is there by program order.
template <class Record, Delays delays>
const double* ScheduleEngine<Record, delays>::input_of(const workload::Action& action, size_t v) {
  if (action.kind == workload::ActionKind::forward)
    return v == 0 ? nullptr : cell(forward_, v, action.microbatch);
  if (action.kind == workload::ActionKind::backward_weight) return nullptr;
  return v == last_virtual_ ? nullptr : cell(backward_, v, action.microbatch);
}

template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::run_from(size_t stage) {
  // A stack of stages instead of recursion: a chain of deliveries is as long as the pipeline times
  // its microbatches.
  can_go_on_.push_back(stage);
  while (!can_go_on_.empty()) {
    const size_t s = can_go_on_.back();
    can_go_on_.pop_back();
    while (run_next(s)) {
    }
  }
}

template <class Record, Delays delays>
bool ScheduleEngine<Record, delays>::run_next(size_t s) {
  Stage& stage = stages_[s];
  if (stage.next == stage.end) return false;
  if constexpr (delays == Delays::shared_links)
    if (stage.held) return false;
  const workload::Action& action = *stage.next;
  double begin = stage.free;
  if (const double* input = input_of(action, as_size(action.chunk) * stages_.size() + s)) {
    if (*input == not_yet) {
      // Nothing polls: deliver() finds this stage by the arrival that it waits for.
      stage.awaits = input;
      return false;
    }
    begin = std::max(begin, *input);
  }
  ++stage.next;
  record_.begin_action(s, action, Seconds(stage.free), Seconds(begin));
  const auto chunk = as_size(action.chunk), kind = as_size(action.kind);
  end_at(s, action, begin + gap_ + stage.durations[chunk][kind].in_base_units());
  return true;
}

/// Frees the stage and sends the action's result to the stage that needs it.
template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::end_at(size_t s, const workload::Action& action, double end) {
  stages_[s].free = end;
  record_.end_action(s, Seconds(end));
  if (together_ > 1 && (action.microbatch + 1) % together_ != 0) return;
  const size_t n = stages_.size(), v = as_size(action.chunk) * n + s;
  if (action.kind == workload::ActionKind::forward) {
    if (v < last_virtual_)
      send(2 * s, s + 1 == n ? 0 : s + 1, cell(forward_, v + 1, action.microbatch));
  } else if (action.kind != workload::ActionKind::backward_weight && v > 0) {
    send(2 * s + 1, (s == 0 ? n : s) - 1, cell(backward_, v - 1, action.microbatch));
  }
}

template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::send(size_t wire, size_t receiver, double* to) {
  Stage& sender = stages_[wire / 2];
  if constexpr (delays == Delays::shared_links) {
    if (wires_[wire].flow_class != Wire::no_flow) {
      Channel& channel = channels_[wire];
      channel.letters.push_back({record_.last_action(wire / 2), sender.free, to, receiver});
      sender.held = mode_ == SendMode::blocking;
      // Behind an earlier send over this wire it waits; end_send() starts it then.
      if (channel.letters.size() - channel.through == 1) start_send(wire);
      return;
    }
  }
  // A blocking stage is never ahead of its wire, so the maximum matters for overlapped sends alone.
  const double begin = std::max(sender.free, wire_free_[wire]);
  const double arrival = begin + wires_[wire].alone.in_base_units();
  wire_free_[wire] = arrival;
  record_.send(wire, record_.last_action(wire / 2), Seconds(begin), Seconds(arrival));
  if (mode_ == SendMode::blocking) sender.free = arrival;
  deliver(receiver, to, arrival);
}

template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::start_send(size_t wire) {
  Channel& channel = channels_[wire];
  channel.begin = std::max(channel.letters[channel.through].ready, wire_free_[wire]);
  begun_.push_back({wire, Seconds(channel.begin)});
}

template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::end_send(size_t wire, Seconds time) {
  static_assert(delays == Delays::shared_links);
  Channel& channel = channels_[wire];
  const Letter letter = channel.letters[channel.through++];
  record_.send(wire, letter.action, Seconds(channel.begin), time);
  wire_free_[wire] = time.in_base_units();
  if (channel.through < channel.letters.size()) start_send(wire);
  Stage& sender = stages_[wire / 2];
  if (mode_ == SendMode::blocking) {
    sender.held = false;
    sender.free = time.in_base_units();
  }
  deliver(letter.receiver, letter.to, time.in_base_units());
  run_from(wire / 2);
}

/// Lets the receiver go on if it stands still for this.
template <class Record, Delays delays>
void ScheduleEngine<Record, delays>::deliver(size_t receiver, double* to, double time) {
  *to = time;
  // The receiver is at work, or waits for something else; it reads the arrival when it comes to it.
  if (stages_[receiver].awaits != to) return;
  stages_[receiver].awaits = nullptr;
  can_go_on_.push_back(receiver);
}

}  // namespace triplepoint::sim
