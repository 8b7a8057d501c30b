// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/finish_time_scheduler.h"

#include <algorithm>
#include <limits>

#include "triplepoint/base/expect.h"

namespace triplepoint::search {
namespace {

using workload::Action;
using workload::ActionKind;

constexpr double not_yet = std::numeric_limits<double>::infinity();

size_t count_microbatches(const workload::StageProgram& program) {
  int32_t last = 0;
  for (const Action& action : program)
    last = std::max(last, action.microbatch);
  return static_cast<size_t>(last) + 1;
}

}  // namespace

std::span<const Seconds> FinishTimeScheduler::finish_times(std::span<const sim::StageTimes> stages,
                                                           std::span<const sim::Wire> wires,
                                                           sim::SendMode mode,
                                                           const sim::ScheduleRules& rules) {
  wires_ = wires;
  mode_ = mode;
  start(stages, rules);
  for (size_t s = 0; s < stages_.size(); ++s) {
    can_go_on_.push_back(s);
    while (!can_go_on_.empty()) {
      const size_t stage = can_go_on_.back();
      can_go_on_.pop_back();
      while (run_next(stage)) {
      }
    }
  }
  finish_.clear();
  for (size_t s = 0; s < stages_.size(); ++s) {
    TPT_EXPECT(stages_[s].next == stages_[s].end);  // a valid schedule never locks up
    finish_.emplace_back(free_[s]);
  }
  return finish_;
}

void FinishTimeScheduler::start(std::span<const sim::StageTimes> stages,
                                const sim::ScheduleRules& rules) {
  gap_ = rules.gap / unit::s;
  microbatches_ = count_microbatches(*stages[0].program);
  last_virtual_ = stages.size() * stages[0].durations.size() - 1;
  forward_.assign((last_virtual_ + 1) * microbatches_, not_yet);
  backward_.assign(forward_.size(), not_yet);
  channel_free_.assign(2 * stages.size(), 0);
  begins_.resize(2 * stages.size());
  for (std::vector<double>& begins : begins_)
    begins.clear();
  free_.assign(stages.size(), rules.start / unit::s);
  stages_.clear();
  for (const sim::StageTimes& stage : stages) {
    const workload::StageProgram& program = *stage.program;
    stages_.push_back({program.data(), program.data() + program.size(), stage.durations.data()});
  }
}

bool FinishTimeScheduler::run_next(size_t s) {
  Stage& stage = stages_[s];
  if (stage.next == stage.end) return false;
  const Action& action = *stage.next;
  const size_t v = static_cast<size_t>(action.chunk) * stages_.size() + s;
  const double* input = nullptr;
  if (action.kind == ActionKind::forward)
    input = v == 0 ? nullptr : cell(forward_, v, action.microbatch);
  else if (action.kind != ActionKind::backward_weight)
    input = v == last_virtual_ ? nullptr : cell(backward_, v, action.microbatch);
  double begin = free_[s];
  if (input != nullptr) {
    if (*input == not_yet) {
      stage.awaits = input;
      return false;
    }
    begin = std::max(begin, *input);
  }
  ++stage.next;
  free_[s] = begin + gap_ +
             stage.durations[static_cast<size_t>(action.chunk)][static_cast<size_t>(action.kind)] /
                 unit::s;
  deliver(s, action, v);
  return true;
}

void FinishTimeScheduler::deliver(size_t s, const Action& action, size_t v) {
  const size_t n = stages_.size();
  if (action.kind == ActionKind::forward) {
    if (v < last_virtual_)
      send_to(2 * s, s + 1 == n ? 0 : s + 1, cell(forward_, v + 1, action.microbatch), s);
  } else if (action.kind != ActionKind::backward_weight && v > 0) {
    send_to(2 * s + 1, s == 0 ? n - 1 : s - 1, cell(backward_, v - 1, action.microbatch), s);
  }
}

void FinishTimeScheduler::send_to(size_t wire, size_t receiver, double* to, size_t s) {
  const double begin = std::max(free_[s], channel_free_[wire]);
  const double arrival = begin + wires_[wire].alone / unit::s;
  begins_[wire].push_back(begin);
  channel_free_[wire] = arrival;
  if (mode_ == sim::SendMode::blocking) free_[s] = arrival;
  *to = arrival;
  if (stages_[receiver].awaits != to) return;
  stages_[receiver].awaits = nullptr;
  can_go_on_.push_back(receiver);
}

namespace {

/// A wire on a link: when its data flow, one send at a time, and what they take of the link.
struct LinkUser {
  const std::vector<double>* begins = nullptr;
  double latency = 0, alone = 0, rate = 0;
  double busy_until = 0;
  size_t next = 0;
  double next_begin() const { return next < begins->size() ? (*begins)[next] + latency : not_yet; }
};

/// Goes through the sends in the order of their begin.
bool suffices(std::vector<LinkUser>& users, double capacity) {
  while (true) {
    auto first = users.begin();
    for (auto user = users.begin(); user != users.end(); ++user)
      if (user->next_begin() < first->next_begin()) first = user;
    const double now = first->next_begin();
    if (now == not_yet) return true;
    first->busy_until = (*first->begins)[first->next++] + first->alone;
    double carried = 0;
    for (const LinkUser& user : users)
      if (user.busy_until > now) carried += user.rate;
    if (carried > capacity) return false;
  }
}

}  // namespace

bool FinishTimeScheduler::links_suffice(const sim::Wiring& wiring, size_t pipeline) const {
  std::vector<std::vector<LinkUser>> users(wiring.capacities().size());
  const auto wires = wiring.wires(pipeline);
  for (size_t w = 0; w < wires.size(); ++w) {
    if (wires[w].flow_class == sim::Wire::no_flow) continue;
    const sim::FlowClass& flow = wiring.classes()[static_cast<size_t>(wires[w].flow_class)];
    for (const sim::LinkUse& use : flow.links)
      users[static_cast<size_t>(use.link)].push_back({.begins = &begins_[w],
                                                      .latency = wires[w].latency / unit::s,
                                                      .alone = wires[w].alone / unit::s,
                                                      .rate = use.ranks * flow.limit});
  }
  for (size_t link = 0; link < users.size(); ++link)
    if (!suffices(users[link], wiring.capacities()[link].in_base_units())) return false;
  return true;
}

}  // namespace triplepoint::search
