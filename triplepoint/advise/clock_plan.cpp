// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/clock_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/quoting.h"

#include "triplepoint/advise/pass_graph.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/steady_state.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::advise {
namespace {

long long whole_mhz(Hertz clock) {
  return std::llround(clock / unit::MHz);
}

struct GpuSetting {
  int64_t gpu;
  long long clock_mhz, lowest_mhz, cap_w;
};

std::string nvidia_line(const GpuSetting& set) {
  return fmt::format("    nvidia-smi -i {0} -lgc {1},{2}   # instead: nvidia-smi -i {0} -pl {3}\n",
                     set.gpu, set.lowest_mhz, set.clock_mhz, set.cap_w);
}

std::string amd_line(const GpuSetting& set) {
  return fmt::format(
      "    amd-smi set -g {0} --clk-limit sclk max {1}   # instead: amd-smi set -g {0} --power-cap "
      "{2}\n",
      set.gpu, set.clock_mhz, set.cap_w);
}

}  // namespace

std::string clock_csv(const spec::Job& job, const ClockPlan& plan, const ClockPoint& point) {
  const std::vector<std::string> header = {"rank",
                                           "node",
                                           "gpu",
                                           "stage",
                                           "clock_mhz",
                                           "power_cap_w",
                                           "clock_before_mhz",
                                           "power_before_w",
                                           "clock_mean_mhz",
                                           "power_w"};
  CsvWriter csv(header);
  const workload::RankGrid grid(job);
  const double max_mhz = *job.cluster.gpu.max_clock / unit::MHz;
  for (int64_t rank = 0; rank < job.world_size(); ++rank) {
    const int64_t device = grid.device_of(rank);
    const auto d = as_size(device);
    csv.cell(rank).cell(device / job.cluster.gpus_per_node);
    csv.cell(device % job.cluster.gpus_per_node).cell(grid.coordinates(rank).pipeline);
    csv.cell(static_cast<int64_t>(whole_mhz(point.clocks[d])));
    csv.cell(static_cast<int64_t>(std::llround(point.caps[d] / unit::W)));
    csv.cell(plan.baseline.clock_ratio[d] * max_mhz).cell(plan.baseline.device_power[d] / unit::W);
    csv.cell(point.step.clock_ratio[d] * max_mhz).cell(point.step.device_power[d] / unit::W);
    csv.end_row();
  }
  return csv.text();
}

std::string clock_script(const spec::Job& job, const ClockPlan& plan, const ClockPoint& point) {
  const bool amd = job.cluster.gpu.vendor == "amd";
  const long long lowest = whole_mhz(job.cluster.gpu.governor->min_clock);
  std::string text = fmt::format(
      "#!/bin/sh\n"
      "# Clocks for {}: predicted {:.2f} % less energy {}, {:.2f} % longer steps.\n"
      "# Read it, then run it on every node as root with the node's number: sh clocks.sh 0\n"
      "# Nodes and GPUs count as in clocks.csv. Back to normal: {}\n"
      "case \"$1\" in\n",
      comment_text(job.name.empty() ? job.model.name : job.name), 100 * point.saving,
      metrics::scope_text(plan.scope), 100 * point.slowdown,
      amd ? "amd-smi reset -g all -c" : "nvidia-smi -rgc");
  const int64_t per_node = job.cluster.gpus_per_node;
  for (int64_t node = 0; node < job.cluster.num_nodes; ++node) {
    text += fmt::format("  {})\n", node);
    for (int64_t gpu = 0; gpu < per_node; ++gpu) {
      const auto d = as_size(node * per_node + gpu);
      const GpuSetting set{.gpu = gpu,
                           .clock_mhz = whole_mhz(point.clocks[d]),
                           .lowest_mhz = lowest,
                           .cap_w = std::llround(point.caps[d] / unit::W)};
      text += amd ? amd_line(set) : nvidia_line(set);
    }
    text += "    ;;\n";
  }
  return text +
         fmt::format("  *)\n    echo \"usage: $0 NODE (0 to {})\" >&2\n    exit 2\n    ;;\nesac\n",
                     job.cluster.num_nodes - 1);
}

namespace {

/// What the lockstep group of a stage does when no device of it may exceed clock k steps below the
/// highest.
struct GroupCurve {
  struct Point {
    std::vector<std::array<Seconds, sim::action_kind_count>> passes;  // [chunk]: of the group
    Seconds worked;                                                   // over a step
    double clock = 0;  // over the highest, mean of the devices while they work
    Joules energy;     // over a step of fixed length, waiting included, all devices of the group
  };
  std::vector<Point> points;  // [k]
};

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
  const size_t stage = as_size(group.stage);
  const auto index_of = [&](int64_t device, size_t use) {
    return std::max(limit, step.clocks.devices[as_size(device)][use].clock_index);
  };
  GroupCurve::Point point;
  point.passes.resize(as_size(model.graph.virtual_stages));
  for (size_t u = 0; u < model.uses[stage].size(); ++u) {
    const sim::PhaseUse& use = model.uses[stage][u];
    sim::PhaseTable& table = model.table(group, use);
    Seconds slowest;
    for (const int64_t device : group.devices)
      slowest = std::max(slowest, table.at(index_of(device, u), group.host_factor).duration);
    point.worked += as_real(use.count) * slowest;
    for (size_t c = 0; c < point.passes.size(); ++c)
      if (as_size(model.graph.chunk_work[stage][c]) == use.work)
        point.passes[c][as_size(use.kind)] = slowest;
    for (const int64_t device : group.devices) {
      const int64_t index = index_of(device, u);
      point.clock += as_real(use.count) * (slowest / unit::s) * model.clock_ratio(index) /
                     as_real(group.devices.size());
      point.energy += as_real(use.count) * pass_energy(model, table.at(index, group.host_factor),
                                                       slowest, index, step.dies[as_size(device)]);
    }
  }
  point.clock /= point.worked / unit::s;
  const Seconds open = std::max(Seconds(), step.timeline.step_time - point.worked);
  if (open > Seconds())
    for (const int64_t device : group.devices)
      point.energy += open * power_of(model, waiting_for(open), limit, step.dies[as_size(device)]);
  return point;
}

/// Clock steps from the highest clock to the lowest that a governor takes.
int64_t most_steps_down(const spec::Gpu& gpu) {
  return static_cast<int64_t>(
      std::floor((*gpu.max_clock - gpu.governor->min_clock) / gpu.governor->clock_step));
}

/// The curve of one group at the clocks and temperatures of a settled step: a member runs at the
/// lower of the limit and of what its governor chose.
GroupCurve group_curve(sim::StepModel& model, const sim::CoupledStep& step, size_t pipeline,
                       size_t stage) {
  GroupCurve curve;
  for (int64_t k = 0; k <= most_steps_down(model.job.cluster.gpu); ++k)
    curve.points.push_back(curve_point(model, step, model.pipelines[pipeline].groups[stage], k));
  return curve;
}

/// Lowers the clocks of the stages of one pipeline, one step of one stage after the other: always
/// the one that saves most energy for the time by which it delays the end (for the slack it uses
/// up, where it delays nothing), while no stage ends later than its deadline and some extra.
///
/// Critical path and slack are of the present clocks in each move, so that what lies off the path
/// is lowered until it lies on it. A stage stops where a lower clock would cost energy.
class StageWalk {
 public:
  /// `rest`: power that is drawn beside the devices for as long as a step takes.
  StageWalk(PassGraph graph, std::vector<GroupCurve> curves, std::vector<Seconds> deadlines,
            Watts rest)
      : graph_(std::move(graph)),
        curves_(std::move(curves)),
        deadlines_(std::move(deadlines)),
        rest_(rest),
        down_(curves_.size(), 0) {
    for (const GroupCurve& curve : curves_)
      times_.push_back(curve.points[0].passes);
    graph_.update(times_);
  }

  /// Goes on from where the last call ended; `extra` must not fall.
  void go_on(Seconds extra) {
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

  /// Of each stage, how many clock steps below the highest.
  const std::vector<int64_t>& steps_down() const { return down_; }
  /// The least slack of each stage's passes of one direction, at the present clocks.
  struct Slack {
    Seconds forward, backward;
  };
  std::vector<Slack> slacks() const {
    const Seconds never(std::numeric_limits<double>::infinity());
    std::vector<Slack> least(curves_.size(), {never, never});
    const std::vector<Seconds> slack = graph_.slacks(deadlines_);
    for (size_t i = 0; i < slack.size(); ++i) {
      const Pass& pass = graph_.passes()[i];
      Seconds& of = pass.kind == as_size(workload::ActionKind::forward)
                        ? least[pass.stage].forward
                        : least[pass.stage].backward;
      of = std::min(of, slack[i]);
    }
    return least;
  }

  /// Clock steps down that do not lengthen a stage's passes: its host launches them more slowly
  /// than it runs them, or a slower member sets its pace.
  std::vector<int64_t> free_steps() const {
    std::vector<int64_t> free;
    for (const GroupCurve& curve : curves_) {
      int64_t steps = 0;
      const Seconds today = curve.points[0].worked;
      while (steps + 1 < static_cast<int64_t>(curve.points.size()) &&
             curve.points[as_size(steps) + 1].worked <= (1 + max_slowdown) * today)
        ++steps;
      free.push_back(steps);
    }
    return free;
  }

  /// The clock of each stage over the highest while it works, as the job is.
  double working_clock(size_t stage) const { return curves_[stage].points[0].clock; }

 private:
  struct Move {
    size_t stage = 0;
    double worth = -1;
  };
  size_t latest_stage() const {
    size_t latest = 0;
    const auto late = [&](size_t s) { return graph_.finishes()[s] - deadlines_[s]; };
    for (size_t s = 1; s < deadlines_.size(); ++s)
      if (late(s) > late(latest)) latest = s;
    return latest;
  }

  Seconds lateness() const {
    const size_t stage = latest_stage();
    return graph_.finishes()[stage] - deadlines_[stage];
  }

  Move best_move(const std::vector<bool>& blocked) const {
    const auto counts = graph_.critical_counts(latest_stage());
    Move best;
    for (size_t s = 0; s < curves_.size(); ++s) {
      if (blocked[s] || next_down(s) == down_[s]) continue;
      const GroupCurve::Point& now = curves_[s].points[as_size(down_[s])];
      const GroupCurve::Point& then = curves_[s].points[as_size(next_down(s))];
      double delay = 0;
      for (size_t c = 0; c < now.passes.size(); ++c)
        for (size_t kind = 0; kind < sim::action_kind_count; ++kind)
          delay += counts[s][c][kind] * ((then.passes[c][kind] - now.passes[c][kind]) / unit::s);
      const double used = (then.worked - now.worked) / unit::s;
      const double saved =
          (now.energy - then.energy) / unit::J - rest_ / unit::W * std::max(0., delay);
      if (saved < 0 || (saved == 0 && used > 0)) continue;
      const double cost = delay + price_of_slack * used;
      const double worth = cost > 0 ? saved / cost : std::numeric_limits<double>::infinity();
      if (worth > best.worth) best = {s, worth};
    }
    return best;
  }

  int64_t next_down(size_t stage) const {
    const auto stride = static_cast<int64_t>(1 + curves_.size() / (stages_per_stride + 1));
    return std::min(down_[stage] + stride, static_cast<int64_t>(curves_[stage].points.size()) - 1);
  }

  void update() {
    for (size_t s = 0; s < curves_.size(); ++s)
      times_[s] = curves_[s].points[as_size(down_[s])].passes;
    graph_.update(times_);
  }

  PassGraph graph_;
  std::vector<GroupCurve> curves_;
  std::vector<Seconds> deadlines_;
  Watts rest_;
  std::vector<int64_t> down_;
  PassTimes times_;
};

constexpr double ladder[] = {0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3};
constexpr int most_tries = 8;

/// Drawn machines that a job's limits are judged on.
struct Setting {
  std::vector<spec::Job> machines;
  const workload::WorkGraph& graph;
  metrics::EnergyScope scope;
  int threads;
};

JudgedStep judged(const spec::Job& job, metrics::EnergyScope scope, const sim::CoupledStep& step) {
  JudgedStep judged;
  judged.time = step.timeline.step_time;
  judged.hottest = *std::ranges::max_element(step.dies);
  for (const sim::DeviceStep& device : step.accounted.devices) {
    judged.device_energy += device.ledger.total();
    judged.clock_ratio.push_back(device.mean_clock_ratio);
    judged.device_power.push_back(device.mean_power);
  }
  judged.mean = judged.device_energy / judged.time / as_real(step.accounted.devices.size());
  judged.energy = search::scope_power(scope, job, judged.mean) * judged.time;
  for (const auto& phases : step.clocks.devices)
    judged.hungriest.push_back(most_of(phases, &sim::DevicePhase::power));
  return judged;
}

template <class T>
void add_all(std::vector<T>& sums, const std::vector<T>& values, double share) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    sums[i] += share * values[i];
}

JudgedStep mean_of(const std::vector<JudgedStep>& steps) {
  JudgedStep mean;
  const double share = 1 / as_real(steps.size());
  double hottest = 0;
  for (const JudgedStep& step : steps) {
    mean.time += share * step.time;
    mean.energy += share * step.energy;
    mean.device_energy += share * step.device_energy;
    mean.mean += share * step.mean;
    hottest += share * step.hottest.degrees();
    mean.times.push_back(step.time / unit::s);
    mean.energies.push_back(step.energy / unit::J);
    add_all(mean.clock_ratio, step.clock_ratio, share);
    add_all(mean.device_power, step.device_power, share);
    add_all(mean.hungriest, step.hungriest, share);
  }
  mean.hottest = Celsius(hottest);
  return mean;
}

/// At rest under the job's faults, those of inlets, fans and sinks as well.
sim::CoupledStep settled(sim::StepModel& model) {
  sim::ClusterHeat heat(model.job, model.hardware);
  heat.set_conditions(model.conditions());
  return sim::solve_steady_state(model, heat);
}

JudgedStep judge(const Setting& setting, const std::vector<Hertz>& clocks,
                 const std::vector<Watts>& caps) {
  std::vector<JudgedStep> steps(setting.machines.size());
  parallel_for(steps.size(), setting.threads, [&](size_t i) {
    spec::Job job = setting.machines[i];
    if (!clocks.empty()) job.environment.device_clock_limits = clocks;
    if (!caps.empty()) job.environment.device_power_limits = caps;
    sim::StepModel model(job, setting.graph);
    steps[i] = judged(job, setting.scope, settled(model));
  });
  return mean_of(steps);
}

/// The pipelines of a job with their curves, and the clocks that a walk over each has reached.
class Walks {
 public:
  /// `rest`: of all pipelines, see StageWalk.
  Walks(sim::StepModel& model, const sim::CoupledStep& step, Watts rest)
      : model_(&model), step_(&step) {
    const sim::SendMode mode =
        model.job.plan.overlap_pipeline ? sim::SendMode::overlapped : sim::SendMode::blocking;
    const sim::ScheduleRules rules{.gap = model.job.stack.microbatch_gap,
                                   .start = model.job.stack.step_overhead};
    for (size_t p = 0; p < model.pipelines.size(); ++p) {
      walks_.emplace_back(
          PassGraph(step.timeline.pipelines[p], as_size(model.graph.virtual_stages), mode, rules),
          numbered(model.pipelines[p].groups.size(),
                   [&](size_t s) { return group_curve(model, step, p, s); }),
          deadlines(p), rest / as_real(model.pipelines.size()));
    }
  }

  const StageWalk& of(size_t pipeline) const { return walks_[pipeline]; }

  void go_on(Seconds extra, int threads) {
    parallel_for(walks_.size(), threads, [&](size_t p) { walks_[p].go_on(extra); });
  }

  /// The clock each device may not exceed: `part` of the way from what its group reaches now down
  /// to its stage's; the highest where that is no way, since a better board may reach more.
  std::vector<Hertz> clocks(double part) const {
    const spec::Gpu& gpu = model_->job.cluster.gpu;
    std::vector<Hertz> clocks(step_->clocks.devices.size(), *gpu.max_clock);
    for (size_t p = 0; p < walks_.size(); ++p)
      for (size_t s = 0; s < walks_[p].steps_down().size(); ++s) {
        const sim::LockstepGroup& group = model_->pipelines[p].groups[s];
        const int64_t reached = reached_steps(group);
        const auto kept = static_cast<int64_t>(part * as_real(walks_[p].steps_down()[s] - reached));
        if (kept <= 0) continue;
        for (const int64_t device : group.devices)
          clocks[as_size(device)] =
              *gpu.max_clock - as_real(reached + kept) * gpu.governor->clock_step;
      }
    return clocks;
  }

 private:
  /// Steps below the highest clock of the highest that a device of the group has in any phase.
  int64_t reached_steps(const sim::LockstepGroup& group) const {
    int64_t reached = std::numeric_limits<int64_t>::max();
    for (const int64_t device : group.devices)
      for (const sim::DevicePhase& phase : step_->clocks.devices[as_size(device)])
        reached = std::min(reached, phase.clock_index);
    return reached;
  }

  /// Until when each stage may take without moving the moment at which all of the model's ranks
  /// meet.
  std::vector<Seconds> deadlines(size_t pipeline) const {
    return mapped(step_->timeline.epilogues[pipeline], [](const sim::StepEpilogue& end) {
      return end.norm_begin - (end.sync_end - end.sync_begin);
    });
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
    const double ratio = step.accounted.devices[as_size(device)].mean_clock_ratio;
    sum += ratio;
    if (ratio < least) {
      least = ratio;
      slowest = device;
    }
  }
  const double share = least * as_real(group.devices.size()) / sum;
  if (share >= slack.lowest_member) return;
  slack.lowest_member = share;
  slack.slowest_device = slowest;
}

std::vector<StageSlack> stage_slacks(const sim::StepModel& model, const sim::CoupledStep& step,
                                     const Walks& walks) {
  std::vector<StageSlack> stages(as_size(model.graph.stages));
  const double replicas = as_real(model.pipelines.size());
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
      stage.working_clock =
          std::min(p == 0 ? 1 : stage.working_clock, walks.of(p).working_clock(s));
      note_members(step, model.pipelines[p].groups[s], stage);
    }
  }
  return stages;
}

class ClockPlanner {
 public:
  ClockPlanner(const spec::Job& job, const ClockOptions& options)
      : options_(options),
        expected_(on_expected_machine(job)),
        graph_(workload::build_work_graph(job)),
        setting_{drawn_machines(job), graph_, options.scope, options.threads} {
    plan_.scope = options.scope;
  }

  ClockPlan run() {
    plan_.fits = graph_.memory.fits();
    if (!plan_.fits) return std::move(plan_);
    const std::vector<double> steps = filtered(ladder, [&](const double slowdown) {
      return slowdown == 0 || slowdown <= options_.most_slowdown;
    });
    options_.watch.begin("Judging clocks", steps.size() + 1);
    sim::StepModel model(expected_, graph_);
    const sim::CoupledStep step = settled(model);
    plan_.baseline = judge(setting_, {}, {});
    Walks walks(model, step, rest_power());
    plan_.stages = stage_slacks(model, step, walks);
    advance();
    for (const double slowdown : steps) {
      plan_.interrupted |= options_.watch.stopped();
      if (plan_.interrupted) break;
      if (const auto point = point_at(walks, slowdown)) keep(*point);
      advance();
    }
    note_if_nothing();
    return std::move(plan_);
  }

 private:
  void advance() const { options_.watch.advance(); }

  /// What the scope draws beside the devices, in joules of theirs.
  Watts rest_power() const {
    const search::Objective energy =
        search::objective_of(search::Goal::energy, expected_, {}, options_.scope);
    return energy.at_rest / energy.share * unit::W;
  }

  /// Walks up to a slowdown; where the simulator says that it came out longer (links that are
  /// shared, heat that moved, boards that differ), again with so much less room, and where no room
  /// is left, with a part of each stage's lowering.
  std::optional<ClockPoint> point_at(Walks& walks, double slowdown) {
    const double allowed = slowdown == 0 ? schedule_tolerance : slowdown;
    double room = allowed, part = 1;
    for (int i = 0; i < most_tries; ++i) {
      Walks tried = walks;
      tried.go_on(room * plan_.baseline.time, options_.threads);
      ClockPoint point = judged_point(slowdown, tried.clocks(part));
      if (point.slowdown <= allowed) {
        walks = std::move(tried);
        point.caps = caps_of(point.step);
        return point;
      }
      const double less = 1.2 * (point.slowdown - allowed);
      if (room > less)
        room -= less;
      else
        part *= 0.85;
    }
    return std::nullopt;
  }

  ClockPoint judged_point(double slowdown, std::vector<Hertz> clocks) const {
    ClockPoint point;
    point.allowed = slowdown;
    for (size_t d = 0; d < clocks.size(); ++d)
      if (const auto& own = expected_.environment.device_clock_limits; !own.empty())
        clocks[d] = std::min(clocks[d], own[d]);
    point.step = judge(setting_, clocks, {});
    point.clocks = std::move(clocks);
    point.slowdown = point.step.time / plan_.baseline.time - 1;
    point.saving = 1 - point.step.energy / plan_.baseline.energy;
    point.device_saving = 1 - point.step.device_energy / plan_.baseline.device_energy;
    std::vector<double> faster, saved;
    for (size_t m = 0; m < point.step.times.size(); ++m) {
      faster.push_back(1 - point.step.times[m] / plan_.baseline.times[m]);
      saved.push_back(1 - point.step.energies[m] / plan_.baseline.energies[m]);
    }
    point.speedups = summarize_gains(faster);
    point.savings = summarize_gains(saved);
    return point;
  }

  /// Whole watts, as drivers take them, that leave the hungriest phase its clock.
  std::vector<Watts> caps_of(const JudgedStep& step) const {
    const spec::Gpu& gpu = expected_.cluster.gpu;
    const Watts most = expected_.power_limit();
    std::vector<Watts> caps;
    for (size_t d = 0; d < step.hungriest.size(); ++d) {
      const Watts needed = clock::limit_for_cap(*gpu.governor, step.hungriest[d]);
      const Watts cap =
          std::max(gpu.min_power_limit.value_or(Watts()), std::ceil(needed / unit::W) * unit::W);
      const auto& own = expected_.environment.device_power_limits;
      caps.push_back(std::min(cap, own.empty() ? most : own[d]));
    }
    return caps;
  }

  /// Takes a point into the frontier if it saves energy, and drops those that it beats.
  void keep(ClockPoint point) {
    const bool saves = point.saving > (plan_.frontier.empty() ? min_reported_gain : 0);
    if (!saves) return;
    if (!plan_.frontier.empty() && point.step.energy >= plan_.frontier.back().step.energy) return;
    while (!plan_.frontier.empty() && point.step.time <= plan_.frontier.back().step.time)
      plan_.frontier.pop_back();
    point.capped = judge(setting_, {}, point.caps);
    point.capped_slowdown = point.capped.time / plan_.baseline.time - 1;
    point.capped_saving = 1 - point.capped.energy / plan_.baseline.energy;
    plan_.frontier.push_back(std::move(point));
  }

  void note_if_nothing() {
    if (plan_.interrupted) return;
    if (!plan_.frontier.empty() && plan_.frontier.front().slowdown <= schedule_tolerance) return;
    plan_.nothing = fmt::format(
        "No clock saves energy {} at no cost of time; of all stages, groups and replicas none "
        "waits for more than {:.1f} % of the step.",
        metrics::scope_text(options_.scope), 100 * most_of(plan_.stages, &StageSlack::waited));
  }

  const ClockOptions& options_;
  spec::Job expected_;
  workload::WorkGraph graph_;
  Setting setting_;
  ClockPlan plan_;
};

}  // namespace

ClockPlan plan_clocks(const spec::Job& job, const ClockOptions& options) {
  const ThreadLimit limit(options.threads);
  return ClockPlanner(job, options).run();
}

std::string reason_of(const ClockPlan& plan, const StageSlack& stage, double lowered) {
  // What its power cap or heat takes of the clock anyway, a lower lock costs nothing.
  constexpr double spread_of_phases = 0.03, least_lowered = 5e-3;
  if (stage.free_clock < 0.95 &&
      stage.free_clock < stage.working_clock * stage.lowest_member - spread_of_phases)
    return fmt::format(
        "launches and links set its pace: its passes take no longer down to {:.0f} % of the clock",
        100 * stage.free_clock);
  const auto longest = std::ranges::max_element(plan.stages, {}, &StageSlack::worked);
  if (lowered < least_lowered) {
    const std::string held =
        stage.working_clock < 0.95
            ? fmt::format(", at {:.0f} % of the highest clock: power or heat holds it there",
                          100 * stage.working_clock)
            : "";
    if (plan.stages.size() == 1)
      return fmt::format(
          "the only stage: its passes take {:.0f} % of the step, communication, optimizer and "
          "waiting the rest{}",
          100 * stage.worked, held);
    return (longest->stage == stage.stage ? "works longest: it sets the pace" : "keeps its clock") +
           held;
  }
  // Most of what the lower clock takes longer, in shares of the step: less explains nothing.
  const double most = 0.5 * lowered * stage.worked, less = longest->worked - stage.worked;
  if (less >= most)
    return fmt::format("works {:.1f} % of the step less than stage {}", 100 * less, longest->stage);
  if (1 - stage.lowest_member >= 0.5 * lowered)
    return fmt::format("its group waits for GPU {}, whose clock is {:.1f} % below the group's mean",
                       stage.slowest_device, 100 * (1 - stage.lowest_member));
  const double slack = std::min(stage.forward_slack, stage.backward_slack) / plan.baseline.time;
  if (slack >= most)
    return fmt::format("every pass may end {:.1f} % of a step later: other stages work longer",
                       100 * slack);
  if (longest->stage == stage.stage && plan.stages.size() > 1)
    return "works longest: it takes what steps may take longer (--slowdown)";
  if (stage.waited >= most)
    return fmt::format("waits for {:.1f} % of the step for {}", 100 * stage.waited,
                       stage.replica_waits ? "slower replicas" : "other stages");
  return "no single cause: simulated steps are as long as stated";
}

}  // namespace triplepoint::advise
