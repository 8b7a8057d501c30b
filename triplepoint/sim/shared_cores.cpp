// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/shared_cores.h"

#include <algorithm>
#include <limits>

#include "triplepoint/base/expect.h"

namespace triplepoint::sim {
namespace {

using workload::Action;
using workload::ActionKind;

constexpr double never = std::numeric_limits<double>::infinity();

/// One stage of one pipeline: at work, waiting for its input, or sending.
struct Stage {
  const std::vector<StageTimes>* pipeline = nullptr;
  const GroupOnCores* group = nullptr;
  size_t pipeline_index = 0, index = 0;
  size_t next = 0;                         // of the program
  bool at_work = false;                    // on action `next`
  double free = 0;                         // seconds: not before this
  double busy = 0, waiting = 0, done = 0;  // of the action at work; done: share of it

  const workload::StageProgram& program() const { return *(*pipeline)[index].program; }
  bool through() const { return next == program().size(); }
  double seconds_at(double rate) const { return busy / rate + waiting; }
};

class Scheduler {
 public:
  Scheduler(std::span<const std::vector<StageTimes>> pipelines,
            std::span<const std::vector<GroupOnCores>> groups, const Wiring& wiring,
            const ScheduleRules& rules, int64_t cores)
      : wiring_(wiring), gap_(rules.gap / unit::s), cores_(static_cast<double>(cores)) {
    TPT_EXPECT(pipelines.size() == groups.size() && cores > 0);
    for (size_t p = 0; p < pipelines.size(); ++p) {
      for (size_t s = 0; s < pipelines[p].size(); ++s)
        stages_.push_back({.pipeline = &pipelines[p],
                           .group = &groups[p][s],
                           .pipeline_index = p,
                           .index = s,
                           .free = rules.start / unit::s});
      timelines_.emplace_back(pipelines[p].size());
      const size_t cells = pipelines[p].size() * pipelines[p][0].durations.size();
      arrivals_.emplace_back(2, std::vector<std::vector<double>>(cells));
    }
    now_ = rules.start / unit::s;
  }

  std::vector<std::vector<StageTimeline>> run() {
    for (;;) {
      for (Stage& stage : stages_)
        begin_action(stage);
      const double rate = core_rate();
      const double next = next_event(rate);
      if (next == never) break;
      go_to(next, rate);
    }
    for (const Stage& stage : stages_) {
      TPT_EXPECT(stage.through());
      timelines_[stage.pipeline_index][stage.index].finish = stage.free * unit::s;
    }
    return std::move(timelines_);
  }

 private:
  size_t last_virtual(const Stage& stage) const {
    return stage.pipeline->size() * (*stage.pipeline)[0].durations.size() - 1;
  }
  static size_t virtual_stage(const Stage& stage, const Action& action) {
    return static_cast<size_t>(action.chunk) * stage.pipeline->size() + stage.index;
  }

  /// Arrival of what an action needs, by virtual stage and microbatch.
  double& arrival(size_t pipeline, bool forward, size_t place, int32_t microbatch) {
    std::vector<double>& cells = arrivals_[pipeline][forward ? 0 : 1][place];
    if (cells.size() <= static_cast<size_t>(microbatch))
      cells.resize(static_cast<size_t>(microbatch) + 1, never);
    return cells[static_cast<size_t>(microbatch)];
  }

  /// When the next action of a stage that is not at work may begin.
  double earliest(const Stage& stage) {
    const Action& action = stage.program()[stage.next];
    const size_t place = virtual_stage(stage, action);
    const bool forward = action.kind == ActionKind::forward;
    const bool own = action.kind == ActionKind::backward_weight ||
                     (forward ? place == 0 : place == last_virtual(stage));
    if (own) return stage.free;
    return std::max(stage.free, arrival(stage.pipeline_index, forward, place, action.microbatch));
  }

  void begin_action(Stage& stage) {
    if (stage.at_work || stage.through() || earliest(stage) > now_) return;
    const Action& action = stage.program()[stage.next];
    const auto chunk = static_cast<size_t>(action.chunk);
    const auto kind = static_cast<size_t>(action.kind);
    const double alone = (*stage.pipeline)[stage.index].durations[chunk][kind] / unit::s;
    stage.waiting = std::min(alone, stage.group->waiting[chunk][kind] / unit::s);
    stage.busy = alone - stage.waiting + gap_;
    stage.done = 0;
    stage.at_work = true;
    StageTimeline& sums = timelines_[stage.pipeline_index][stage.index];
    ActionTimes& times = sums.actions.emplace_back();
    times.action = action;
    times.ready = stage.free * unit::s;
    times.begin = now_ * unit::s;
    sums.waited += times.begin - times.ready;
  }

  double cores_wanted(double rate) const {
    double wanted = 0;
    for (const Stage& stage : stages_)
      if (stage.at_work && stage.busy > 0)
        wanted += static_cast<double>(stage.group->ranks) * stage.busy / stage.seconds_at(rate);
    return wanted;
  }

  /// Of each rank that computes. Found by halving: what is wanted grows with the rate.
  double core_rate() const {
    if (cores_wanted(1) <= cores_) return 1;
    double low = 0, high = 1;
    for (int i = 0; i < 50; ++i) {
      const double middle = 0.5 * (low + high);
      (cores_wanted(middle) > cores_ ? high : low) = middle;
    }
    return low;
  }

  double next_event(double rate) {
    double next = never;
    for (const Stage& stage : stages_) {
      if (stage.at_work)
        next = std::min(next, now_ + (1 - stage.done) * stage.seconds_at(rate));
      else if (!stage.through())
        next = std::min(next, earliest(stage));
    }
    return next;
  }

  void go_to(double next, double rate) {
    constexpr double completion_tolerance = 1e-12;
    for (Stage& stage : stages_) {
      if (!stage.at_work) continue;
      const double all = stage.seconds_at(rate);
      stage.done = all > 0 ? stage.done + (next - now_) / all : 1;
      if (stage.done >= 1 - completion_tolerance) stage.done = 1;
    }
    now_ = next;
    for (Stage& stage : stages_)
      if (stage.at_work && stage.done == 1) end_action(stage);
  }

  void end_action(Stage& stage) {
    StageTimeline& sums = timelines_[stage.pipeline_index][stage.index];
    ActionTimes& times = sums.actions.back();
    times.end = now_ * unit::s;
    sums.worked += times.end - times.begin;
    stage.at_work = false;
    stage.free = now_;
    const Action& action = stage.program()[stage.next++];
    const size_t place = virtual_stage(stage, action);
    const bool forward = action.kind == ActionKind::forward;
    if (action.kind == ActionKind::backward_weight) return;
    if (forward ? place == last_virtual(stage) : place == 0) return;
    const size_t wire = 2 * stage.index + (forward ? 0 : 1);
    const Seconds alone = wiring_.wires(stage.pipeline_index)[wire].alone;
    times.sent = alone;
    sums.sent += alone;
    arrival(stage.pipeline_index, forward, forward ? place + 1 : place - 1, action.microbatch) =
        now_ + alone / unit::s;
    if (wiring_.mode() == SendMode::blocking) stage.free += alone / unit::s;
  }

  const Wiring& wiring_;
  double gap_, cores_, now_ = 0;
  std::vector<Stage> stages_;
  std::vector<std::vector<StageTimeline>> timelines_;
  std::vector<std::vector<std::vector<std::vector<double>>>> arrivals_;  // [pipeline][way][place]
};

}  // namespace

std::vector<std::vector<StageTimeline>> simulate_on_shared_cores(
    std::span<const std::vector<StageTimes>> pipelines,
    std::span<const std::vector<GroupOnCores>> groups, const Wiring& wiring,
    const ScheduleRules& rules, int64_t cores) {
  return Scheduler(pipelines, groups, wiring, rules, cores).run();
}

Seconds waiting_of(const spec::GpuLoad& load, Seconds duration) {
  const Seconds on_cores =
      load.computing + std::max(Seconds(), load.communicating - load.communicating_scale_out);
  return std::max(Seconds(), duration - on_cores);
}

Seconds oversubscribed_time(const std::vector<OpEstimate>& ops, Seconds cover,
                            double oversubscription) {
  Seconds exposed, hidden;
  for (const OpEstimate& estimate : ops) {
    const bool over_fabric =
        estimate.op->is_communication() && estimate.collective.scale_out_bytes > Bytes();
    (estimate.hidden ? hidden : exposed) += (over_fabric ? 1 : oversubscription) * estimate.at(1);
  }
  return exposed + std::max(Seconds(), hidden - cover);
}

}  // namespace triplepoint::sim
