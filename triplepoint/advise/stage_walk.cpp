// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/stage_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "triplepoint/sim/device_phase.h"

namespace triplepoint::advise {
namespace {

using sim::action_kind_count;

/// A use of slack that delays nothing counts so much of what a delay counts: of two free moves the
/// one that leaves more slack to others goes first.
constexpr double price_of_slack = 1e-3;
// Work that grows by less counts as growing not at all.
constexpr double max_slowdown = 5e-4;
// Longer pipelines take longer strides, so that a walk stays within some thousand updates.
constexpr size_t stages_per_stride = 16;

Watts power_of(const sim::StepModel& model, const spec::GpuLoad& load, int64_t index, Celsius die) {
  return sim::typical_power(model.job, load, model.clock_ratio(index), die);
}

/// Energy of one use of a phase on one device, its wait for the slower members included.
Joules pass_energy(const sim::StepModel& model, const sim::PhasePoint& own, Seconds of_team,
                   int64_t index, Celsius die) {
  spec::GpuLoad load = own.load;
  load.waiting += of_team - load.duration;
  load.duration = of_team;
  return power_of(model, load, index, die) * of_team;
}

spec::GpuLoad waiting_for(Seconds duration) {
  spec::GpuLoad load;
  load.duration = load.waiting = duration;
  return load;
}

GroupCurve::Point curve_point(sim::StepModel& model, const sim::CoupledStep& step,
                              const sim::LockstepGroup& group, int64_t limit) {
  const size_t stage = static_cast<size_t>(group.stage);
  const auto index_of = [&](int64_t device, size_t use) {
    return std::max(limit, step.clocks.devices[static_cast<size_t>(device)][use].clock_index);
  };
  GroupCurve::Point point;
  point.passes.resize(static_cast<size_t>(model.graph.virtual_stages));
  for (size_t u = 0; u < model.uses[stage].size(); ++u) {
    const sim::PhaseUse& use = model.uses[stage][u];
    sim::PhaseTable& table = model.table(group, use);
    Seconds slowest;
    for (const int64_t device : group.devices)
      slowest = std::max(slowest, table.at(index_of(device, u), group.host_factor).duration);
    point.worked += static_cast<double>(use.count) * slowest;
    for (size_t c = 0; c < point.passes.size(); ++c)
      if (static_cast<size_t>(model.graph.chunk_work[stage][c]) == use.work)
        point.passes[c][static_cast<size_t>(use.kind)] = slowest;
    for (const int64_t device : group.devices) {
      const int64_t index = index_of(device, u);
      point.energy += static_cast<double>(use.count) *
                      pass_energy(model, table.at(index, group.host_factor), slowest, index,
                                  step.dies[static_cast<size_t>(device)]);
    }
  }
  const Seconds open = std::max(Seconds(), step.timeline.step_time - point.worked);
  if (open > Seconds())
    for (const int64_t device : group.devices)
      point.energy +=
          open * power_of(model, waiting_for(open), limit, step.dies[static_cast<size_t>(device)]);
  return point;
}

}  // namespace

int64_t most_steps_down(const spec::Gpu& gpu) {
  return static_cast<int64_t>(
      std::floor((*gpu.max_clock - gpu.governor->min_clock) / gpu.governor->clock_step));
}

GroupCurve group_curve(sim::StepModel& model, const sim::CoupledStep& step, size_t pipeline,
                       size_t stage) {
  GroupCurve curve;
  for (int64_t k = 0; k <= most_steps_down(model.job.cluster.gpu); ++k)
    curve.points.push_back(curve_point(model, step, model.pipelines[pipeline].groups[stage], k));
  return curve;
}

StageWalk::StageWalk(PassGraph graph, std::vector<GroupCurve> curves,
                     std::vector<Seconds> deadlines)
    : graph_(std::move(graph)),
      curves_(std::move(curves)),
      deadlines_(std::move(deadlines)),
      down_(curves_.size(), 0) {
  for (const GroupCurve& curve : curves_)
    times_.push_back(curve.points[0].passes);
  graph_.update(times_);
}

void StageWalk::update() {
  for (size_t s = 0; s < curves_.size(); ++s)
    times_[s] = curves_[s].points[static_cast<size_t>(down_[s])].passes;
  graph_.update(times_);
}

size_t StageWalk::latest_stage() const {
  size_t latest = 0;
  const auto late = [&](size_t s) { return graph_.finishes()[s] - deadlines_[s]; };
  for (size_t s = 1; s < deadlines_.size(); ++s)
    if (late(s) > late(latest)) latest = s;
  return latest;
}

Seconds StageWalk::lateness() const {
  const size_t stage = latest_stage();
  return graph_.finishes()[stage] - deadlines_[stage];
}

int64_t StageWalk::next_down(size_t stage) const {
  const auto stride = static_cast<int64_t>(1 + curves_.size() / (stages_per_stride + 1));
  return std::min(down_[stage] + stride, static_cast<int64_t>(curves_[stage].points.size()) - 1);
}

StageWalk::Move StageWalk::best_move(const std::vector<bool>& blocked) const {
  const auto counts = graph_.critical_counts(latest_stage());
  Move best;
  for (size_t s = 0; s < curves_.size(); ++s) {
    if (blocked[s] || next_down(s) == down_[s]) continue;
    const GroupCurve::Point& now = curves_[s].points[static_cast<size_t>(down_[s])];
    const GroupCurve::Point& then = curves_[s].points[static_cast<size_t>(next_down(s))];
    const double saved = (now.energy - then.energy) / unit::J;
    double delay = 0;
    for (size_t c = 0; c < now.passes.size(); ++c)
      for (size_t kind = 0; kind < action_kind_count; ++kind)
        delay += counts[s][c][kind] * ((then.passes[c][kind] - now.passes[c][kind]) / unit::s);
    const double used = (then.worked - now.worked) / unit::s;
    if (saved < 0 || (saved == 0 && used > 0)) continue;
    const double cost = delay + price_of_slack * used;
    const double worth = cost > 0 ? saved / cost : std::numeric_limits<double>::infinity();
    if (worth > best.worth) best = {s, worth};
  }
  return best;
}

void StageWalk::go_on(Seconds extra) {
  std::vector<bool> blocked(curves_.size(), false);
  for (Move move = best_move(blocked); move.worth >= 0; move = best_move(blocked)) {
    const int64_t before = down_[move.stage];
    down_[move.stage] = next_down(move.stage);
    update();
    if (lateness() <= extra) continue;
    down_[move.stage] = before;
    blocked[move.stage] = true;
    update();
  }
}

std::vector<int64_t> StageWalk::free_steps() const {
  std::vector<int64_t> free;
  for (const GroupCurve& curve : curves_) {
    int64_t steps = 0;
    const Seconds today = curve.points[0].worked;
    while (steps + 1 < static_cast<int64_t>(curve.points.size()) &&
           curve.points[static_cast<size_t>(steps) + 1].worked <= (1 + max_slowdown) * today)
      ++steps;
    free.push_back(steps);
  }
  return free;
}

std::vector<StageWalk::Slack> StageWalk::slacks() const {
  const Seconds never(std::numeric_limits<double>::infinity());
  std::vector<Slack> least(curves_.size(), {never, never});
  const std::vector<Seconds> slack = graph_.slacks(deadlines_);
  for (size_t i = 0; i < slack.size(); ++i) {
    const Pass& pass = graph_.passes()[i];
    Seconds& of = pass.kind == static_cast<size_t>(workload::ActionKind::forward)
                      ? least[pass.stage].forward
                      : least[pass.stage].backward;
    of = std::min(of, slack[i]);
  }
  return least;
}

}  // namespace triplepoint::advise
