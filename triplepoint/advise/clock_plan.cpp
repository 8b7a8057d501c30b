// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/clock_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/advise/stage_walk.h"
#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/steady_state.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::advise {
namespace {

constexpr double ladder[] = {0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3};
constexpr int most_tries = 4;
// Less than this is not worth a setting on every device.
constexpr double worth_mentioning = 5e-4;

/// Everything of a job that does not depend on its limits.
struct Setting {
  const spec::Job& job;
  const workload::WorkGraph& graph;
};

JudgedStep judged(const sim::CoupledStep& step) {
  JudgedStep judged;
  judged.time = step.timeline.step_time;
  judged.hottest = *std::max_element(step.dies.begin(), step.dies.end());
  for (const sim::DeviceStep& device : step.accounted.devices) {
    judged.energy += device.ledger.total();
    judged.clock_ratio.push_back(device.mean_clock_ratio);
    judged.device_power.push_back(device.mean_power);
  }
  judged.mean = judged.energy / judged.time / static_cast<double>(step.accounted.devices.size());
  for (const auto& phases : step.clocks.devices) {
    Watts most;
    for (const sim::DevicePhase& phase : phases)
      most = std::max(most, phase.power);
    judged.hungriest.push_back(most);
  }
  return judged;
}

JudgedStep judge(const Setting& setting, const std::vector<Hertz>& clocks,
                 const std::vector<Watts>& caps) {
  spec::Job job = setting.job;
  if (!clocks.empty()) job.environment.device_clock_limits = clocks;
  if (!caps.empty()) job.environment.device_power_limits = caps;
  sim::StepModel model(job, setting.graph);
  sim::ClusterHeat heat(job, model.hardware);
  return judged(sim::solve_steady_state(model, heat));
}

/// The pipelines of a job with their curves, and the clocks that a walk over each has reached.
class Walks {
 public:
  Walks(sim::StepModel& model, const sim::CoupledStep& step) : model_(&model), step_(&step) {
    const sim::SendMode mode =
        model.job.plan.overlap_pipeline ? sim::SendMode::overlapped : sim::SendMode::blocking;
    const sim::ScheduleRules rules{.gap = model.job.stack.microbatch_gap,
                                   .start = model.job.stack.step_overhead};
    for (size_t p = 0; p < model.pipelines.size(); ++p) {
      std::vector<GroupCurve> curves;
      for (size_t s = 0; s < model.pipelines[p].groups.size(); ++s)
        curves.push_back(group_curve(model, step, p, s));
      walks_.emplace_back(PassGraph(step.timeline.pipelines[p],
                                    static_cast<size_t>(model.graph.virtual_stages), mode, rules),
                          std::move(curves), deadlines(p));
    }
  }

  const StageWalk& of(size_t pipeline) const { return walks_[pipeline]; }

  void go_on(Seconds extra, int threads) {
    parallel_for(walks_.size(), threads, [&](size_t p) { walks_[p].go_on(extra); });
  }

  /// The clock each device may not exceed: that of its stage, and none above what it reaches now
  /// (a higher one would only be burnt while it waits).
  std::vector<Hertz> clocks() const {
    const spec::Gpu& gpu = model_->job.cluster.gpu;
    std::vector<Hertz> clocks(step_->clocks.devices.size(), *gpu.max_clock);
    for (size_t p = 0; p < walks_.size(); ++p)
      for (size_t s = 0; s < walks_[p].steps_down().size(); ++s)
        for (const int64_t device : model_->pipelines[p].groups[s].devices) {
          const size_t d = static_cast<size_t>(device);
          int64_t reached = std::numeric_limits<int64_t>::max();
          for (const sim::DevicePhase& phase : step_->clocks.devices[d])
            reached = std::min(reached, phase.clock_index);
          const int64_t down = std::max(walks_[p].steps_down()[s], reached);
          clocks[d] = *gpu.max_clock - static_cast<double>(down) * gpu.governor->clock_step;
        }
    return clocks;
  }

 private:
  /// Until when each stage may take without moving the moment at which all of the model's ranks
  /// meet.
  std::vector<Seconds> deadlines(size_t pipeline) const {
    std::vector<Seconds> latest;
    for (const sim::StepEpilogue& end : step_->timeline.epilogues[pipeline])
      latest.push_back(end.norm_begin - (end.sync_end - end.sync_begin));
    return latest;
  }

  const sim::StepModel* model_;
  const sim::CoupledStep* step_;
  std::vector<StageWalk> walks_;
};

/// Of one stage and one of its replicas: the slowest member over the mean one.
void note_members(const sim::CoupledStep& step, const sim::LockstepGroup& group,
                  StageSlack& slack) {
  double sum = 0, least = std::numeric_limits<double>::infinity();
  int64_t slowest = group.devices.front();
  for (const int64_t device : group.devices) {
    const double ratio = step.accounted.devices[static_cast<size_t>(device)].mean_clock_ratio;
    sum += ratio;
    if (ratio < least) {
      least = ratio;
      slowest = device;
    }
  }
  const double share = least * static_cast<double>(group.devices.size()) / sum;
  if (share >= slack.lowest_member) return;
  slack.lowest_member = share;
  slack.slowest_device = slowest;
}

std::vector<StageSlack> stage_slacks(const sim::StepModel& model, const sim::CoupledStep& step,
                                     const Walks& walks) {
  std::vector<StageSlack> stages(static_cast<size_t>(model.graph.stages));
  const double replicas = static_cast<double>(model.pipelines.size());
  for (size_t p = 0; p < model.pipelines.size(); ++p) {
    const std::vector<StageWalk::Slack> slack = walks.of(p).slacks();
    const std::vector<int64_t> free = walks.of(p).free_steps();
    for (size_t s = 0; s < stages.size(); ++s) {
      StageSlack& stage = stages[s];
      stage.stage = static_cast<int64_t>(s);
      const sim::StageTimeline& timeline = step.timeline.pipelines[p][s];
      const sim::StepEpilogue& end = step.timeline.epilogues[p][s];
      const Seconds for_replicas = end.sync_begin - end.finish;
      const Seconds waited = timeline.waited + for_replicas + (end.norm_begin - end.sync_end);
      stage.worked += timeline.worked / step.timeline.step_time / replicas;
      stage.waited += waited / step.timeline.step_time / replicas;
      stage.forward_slack = std::max(stage.forward_slack, slack[s].forward);
      stage.backward_slack = std::max(stage.backward_slack, slack[s].backward);
      stage.replica_waits |= for_replicas > 0.5 * waited;
      // The least of all replicas is free for all.
      stage.free_clock = std::max(p == 0 ? 0 : stage.free_clock, model.clock_ratio(free[s]));
      note_members(step, model.pipelines[p].groups[s], stage);
    }
  }
  return stages;
}

class ClockPlanner {
 public:
  ClockPlanner(const spec::Job& job, const ClockOptions& options)
      : options_(options), graph_(workload::build_work_graph(job)), setting_{job, graph_} {}

  ClockPlan run() {
    plan_.fits = graph_.memory.fits();
    if (!plan_.fits) return std::move(plan_);
    std::vector<double> steps;
    for (const double slowdown : ladder)
      if (slowdown == 0 || slowdown <= options_.most_slowdown) steps.push_back(slowdown);
    if (options_.begin) options_.begin("Judging clocks", steps.size() + 1);
    sim::StepModel model(setting_.job, graph_);
    sim::ClusterHeat heat(setting_.job, model.hardware);
    const sim::CoupledStep step = sim::solve_steady_state(model, heat);
    plan_.baseline = judged(step);
    Walks walks(model, step);
    plan_.stages = stage_slacks(model, step, walks);
    advance();
    for (const double slowdown : steps) {
      if (options_.stopped && options_.stopped()) break;
      if (const auto point = point_at(walks, slowdown)) keep(*point);
      advance();
    }
    say_if_nothing();
    return std::move(plan_);
  }

 private:
  void advance() const {
    if (options_.advance) options_.advance();
  }

  /// Walks up to a slowdown; where the simulator says that it came out longer (links that are
  /// shared, heat that moved), again from the start with so much less room.
  std::optional<ClockPoint> point_at(Walks& walks, double slowdown) {
    const double allowed = slowdown == 0 ? schedule_tolerance : slowdown;
    double room = allowed;
    for (int i = 0; i < most_tries; ++i) {
      Walks tried = walks;
      tried.go_on(room * plan_.baseline.time, options_.threads);
      ClockPoint point = judged_point(slowdown, tried.clocks());
      if (point.slowdown <= allowed) {
        walks = std::move(tried);
        point.caps = caps_of(point.step);
        return point;
      }
      room -= 1.2 * (point.slowdown - allowed);
    }
    return std::nullopt;
  }

  ClockPoint judged_point(double slowdown, std::vector<Hertz> clocks) const {
    ClockPoint point;
    point.allowed = slowdown;
    for (size_t d = 0; d < clocks.size(); ++d)
      if (const auto& own = setting_.job.environment.device_clock_limits; !own.empty())
        clocks[d] = std::min(clocks[d], own[d]);
    point.step = judge(setting_, clocks, {});
    point.clocks = std::move(clocks);
    point.slowdown = point.step.time / plan_.baseline.time - 1;
    point.saving = 1 - point.step.energy / plan_.baseline.energy;
    return point;
  }

  /// Whole watts, as drivers take them, that leave the hungriest phase its clock.
  std::vector<Watts> caps_of(const JudgedStep& step) const {
    const spec::Gpu& gpu = setting_.job.cluster.gpu;
    const Watts most = setting_.job.power_limit();
    std::vector<Watts> caps;
    for (size_t d = 0; d < step.hungriest.size(); ++d) {
      const double needed = step.hungriest[d] / unit::W / gpu.governor->regulation_share;
      const Watts cap =
          std::max(gpu.min_power_limit.value_or(Watts()), std::ceil(needed) * unit::W);
      const auto& own = setting_.job.environment.device_power_limits;
      caps.push_back(std::min(cap, own.empty() ? most : own[d]));
    }
    return caps;
  }

  /// Takes a point into the frontier if it saves energy, and drops those that it beats.
  void keep(ClockPoint point) {
    const bool saves = point.saving > (plan_.frontier.empty() ? worth_mentioning : 0);
    if (!saves) return;
    if (!plan_.frontier.empty() && point.step.energy >= plan_.frontier.back().step.energy) return;
    while (!plan_.frontier.empty() && point.step.time <= plan_.frontier.back().step.time)
      plan_.frontier.pop_back();
    point.capped = judge(setting_, {}, point.caps);
    point.capped_slowdown = point.capped.time / plan_.baseline.time - 1;
    point.capped_saving = 1 - point.capped.energy / plan_.baseline.energy;
    plan_.frontier.push_back(std::move(point));
  }

  void say_if_nothing() {
    if (!plan_.frontier.empty() && plan_.frontier.front().slowdown <= schedule_tolerance) return;
    double waited = 0;
    for (const StageSlack& stage : plan_.stages)
      waited = std::max(waited, stage.waited);
    plan_.nothing = fmt::format(
        "Nothing saves energy without costing time: no stage, group or replica waits for another "
        "long enough (at most {:.1f} % of the step is spent waiting), so every clock sets the "
        "pace.",
        100 * waited);
  }

  const ClockOptions& options_;
  workload::WorkGraph graph_;
  Setting setting_;
  ClockPlan plan_;
};

}  // namespace

ClockPlan plan_clocks(const spec::Job& job, const ClockOptions& options) {
  return ClockPlanner(job, options).run();
}

std::string reason_of(const ClockPlan& plan, const StageSlack& stage) {
  if (stage.free_clock < 0.95)
    return fmt::format(
        "launches and links set its pace: its passes take no longer down to {:.0f} % of the clock",
        100 * stage.free_clock);
  const double slack = std::min(stage.forward_slack, stage.backward_slack) / plan.baseline.time;
  const auto longest = std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [](const StageSlack& a, const StageSlack& b) { return a.worked < b.worked; });
  const double less = longest->worked - stage.worked;
  std::string works_less =
      fmt::format("works {:.1f} % of the step less than stage {}", 100 * less, longest->stage);
  constexpr double much_less = 0.05;
  if (less > much_less) return works_less;
  if (stage.lowest_member < 1 - 5e-3)
    return fmt::format("its group waits for GPU {}, whose clock is {:.1f} % below the group's mean",
                       stage.slowest_device, 100 * (1 - stage.lowest_member));
  if (stage.replica_waits) return "waits for slower replicas at the end of the step";
  if (slack > schedule_tolerance)
    return fmt::format("every pass may end {:.1f} % of a step later: other stages work longer",
                       100 * slack);
  if (longest->stage == stage.stage) return "works longest: it sets the pace";
  if (less > 5e-3) return works_less;
  return "works about as long as the longest: it sets the pace too";
}

}  // namespace triplepoint::advise
