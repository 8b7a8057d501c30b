// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_model.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/shared_cores.h"
#include "triplepoint/sim/step_end.h"

namespace triplepoint::sim {
namespace {

using clock::ClockEventReason;
using workload::ActionKind;

// Below, a round is over before threads have begun.
constexpr int64_t fewest_devices_for_threads = 1024;

int64_t work_of(const workload::WorkGraph& graph, size_t stage, int32_t chunk) {
  return graph.chunk_work[stage][static_cast<size_t>(chunk)];
}

}  // namespace

PricedEnd price_end(const spec::Job& job, const workload::WorkGraph& graph,
                    const workload::StepWork& work) {
  const auto price_all = [&](const std::vector<spec::Op>& ops) {
    std::vector<PricedOp> priced;
    priced.reserve(ops.size());
    for (const spec::Op& op : ops)
      priced.push_back(price_op(job, graph, op));
    return priced;
  };
  PricedEnd end{.gradient_sync = price_all(work.gradient_sync),
                .gradient_norm = price_all(work.gradient_norm),
                .optimizer = price_all(work.optimizer),
                .parameter_sync = price_all(work.parameter_sync)};
  for (const PricedOp& priced : end.gradient_sync)
    end.waits_for_replicas |=
        priced.op->is_communication() && graph.grid.shape(priced.op->group).ranks > 1;
  return end;
}

Seconds exposed_time(const std::vector<PricedOp>& ops, Seconds cover) {
  Seconds exposed, hidden;
  for (const PricedOp& priced : ops)
    (priced.hidden ? hidden : exposed) += priced.at(1);
  return exposed + std::max(Seconds(), hidden - cover);
}

Seconds total_time(const std::vector<PricedOp>& ops) {
  Seconds total;
  for (const PricedOp& priced : ops)
    total += priced.at(1);
  return total;
}

bool ClockState::same_clocks(const ClockState& other) const {
  if (devices.size() != other.devices.size()) return false;
  for (size_t d = 0; d < devices.size(); ++d)
    for (size_t u = 0; u < devices[d].size(); ++u)
      if (devices[d][u].clock_index != other.devices[d][u].clock_index) return false;
  return true;
}

StepModel::StepModel(const spec::Job& the_job, const workload::WorkGraph& the_graph)
    : job(the_job),
      graph(the_graph),
      machine(draw_machine(the_job)),
      pipelines(form_pipelines(job, graph, machine)) {
  const spec::GovernorCoefficients& governor = *job.cluster.gpu.governor;
  const Hertz max_clock = *job.cluster.gpu.max_clock;
  step_ratio_ = governor.clock_step / max_clock;
  clock_steps_ =
      static_cast<int64_t>(std::floor((max_clock - governor.min_clock) / governor.clock_step));
  find_uses();
  scale_ = clock_scale(job.cluster.gpu, clock_steps_);
  if (job.cluster.num_gpus() >= fewest_devices_for_threads) threads_ = available_threads();
  set_conditions(lasting_conditions(job));
}

/// A table per distinct (chunk work, action kind); per stage, which of them it plays and how often.
void StepModel::find_uses() {
  constexpr size_t none = ~size_t{0};
  std::vector<size_t> table_of(graph.works.size() * action_kind_count, none);
  uses.resize(static_cast<size_t>(graph.stages));
  for (size_t stage = 0; stage < uses.size(); ++stage) {
    for (const workload::Action& action : graph.programs[stage]) {
      const size_t work = static_cast<size_t>(work_of(graph, stage, action.chunk));
      size_t& table = table_of[work * action_kind_count + static_cast<size_t>(action.kind)];
      if (table == none) {
        table = table_works_.size();
        table_works_.emplace_back(work, action.kind);
      }
      const auto use =
          std::find_if(uses[stage].begin(), uses[stage].end(),
                       [&](const PhaseUse& candidate) { return candidate.table == table; });
      if (use != uses[stage].end())
        ++use->count;
      else
        uses[stage].push_back({.table = table, .work = work, .kind = action.kind, .count = 1});
    }
  }
  num_tables_ = table_works_.size();
}

/// Index of these shares; prices them the first time.
size_t StepModel::links_of(const LinkShares& shares) {
  const auto known = std::find(known_shares_.begin(), known_shares_.end(), shares);
  if (known != known_shares_.end()) return static_cast<size_t>(known - known_shares_.begin());
  spec::Job slowed = job;
  slowed.cluster.scale_up.bandwidth *= shares.scale_up;
  slowed.cluster.scale_out.nic_bandwidth *= shares.scale_out;
  for (const auto& [work, kind] : table_works_)
    tables_.emplace_back(price_action(slowed, graph, graph.works[work], kind), job.stack,
                         clock_steps_, step_ratio_);
  if (threads_ > 1)
    for (PhaseTable& table : tables_)
      table.fill();
  for (const workload::StepWork& work : graph.step_works)
    ends_.push_back(price_end(slowed, graph, work));
  known_shares_.push_back(shares);
  return known_shares_.size() - 1;
}

/// A ring goes as fast as its slowest link.
StepModel::LinkShares StepModel::shares_of(const Team& team) const {
  LinkShares least;
  for (const int64_t device : team.devices) {
    const int64_t node = device / job.cluster.gpus_per_node;
    least.scale_up =
        std::min(least.scale_up, conditions_.scale_up_share[static_cast<size_t>(device)]);
    least.scale_out =
        std::min(least.scale_out, conditions_.scale_out_share[static_cast<size_t>(node)]);
  }
  return least;
}

void StepModel::set_hosts_and_links() {
  std::vector<LinkShares> of_stage(static_cast<size_t>(graph.stages));
  for (Pipeline& pipeline : pipelines)
    for (Team& team : pipeline.teams) {
      team.host_factor = 0;
      for (const int64_t device : team.devices) {
        const auto node = static_cast<size_t>(device / job.cluster.gpus_per_node);
        team.host_factor =
            std::max(team.host_factor, conditions_.host_factor[node] * machine.host_factor[node]);
      }
      const LinkShares shares = shares_of(team);
      team.links = links_of(shares);
      LinkShares& stage = of_stage[static_cast<size_t>(team.stage)];
      stage.scale_up = std::min(stage.scale_up, shares.scale_up);
      stage.scale_out = std::min(stage.scale_out, shares.scale_out);
    }
  end_links_.clear();
  for (const LinkShares& shares : of_stage)
    end_links_.push_back(links_of(shares));
  sends = price_boundaries(job, graph, pipelines, &conditions_);
  wiring_.emplace(sends.boundaries, sends.capacities,
                  job.plan.overlap_pipeline ? SendMode::overlapped : SendMode::blocking);
}

bool StepModel::set_conditions(const Conditions& conditions) {
  const bool same = wiring_ && conditions.scale_up_share == conditions_.scale_up_share &&
                    conditions.scale_out_share == conditions_.scale_out_share &&
                    conditions.host_factor == conditions_.host_factor;
  conditions_ = conditions;
  if (!same) set_hosts_and_links();
  return !same;
}

size_t StepModel::use_of(size_t stage, const workload::Action& action) const {
  const size_t work = static_cast<size_t>(work_of(graph, stage, action.chunk));
  for (size_t u = 0; u < uses[stage].size(); ++u)
    if (uses[stage][u].work == work && uses[stage][u].kind == action.kind) return u;
  TPT_EXPECT(false);
  return 0;
}

/// What lies between a phase and the next, as far as it is known before the step is played: the
/// host's gap and the boundary tensor at the rate it has alone.
spec::GpuLoad StepModel::exchange_after(size_t pipeline, size_t stage,
                                        workload::ActionKind kind) const {
  const Direction way =
      kind == workload::ActionKind::forward ? Direction::next : Direction::previous;
  return exchange_load(job.stack, sends.prices[pipeline][stage][static_cast<size_t>(way)],
                       wiring_->mode(), kind);
}

ClockState StepModel::choose_clocks(std::span<const Celsius> die, const ClockState* before) {
  ClockState state;
  state.devices.resize(static_cast<size_t>(job.cluster.num_gpus()));
  parallel_for(pipelines.size(), threads_,
               [&](size_t p) { choose_clocks_of(pipelines[p], p, die, before, state); });
  return state;
}

void StepModel::choose_clocks_of(const Pipeline& pipeline, size_t index,
                                 std::span<const Celsius> die, const ClockState* before,
                                 ClockState& state) {
  for (const Team& team : pipeline.teams) {
    const size_t stage = static_cast<size_t>(team.stage);
    for (const int64_t device : team.devices)
      state.devices[static_cast<size_t>(device)].reserve(uses[stage].size());
    for (size_t u = 0; u < uses[stage].size(); ++u) {
      const PhaseUse& use = uses[stage][u];
      PhaseConditions at{.exchange = exchange_after(index, stage, use.kind),
                         .host_factor = team.host_factor,
                         .die = {},
                         .limit = {}};
      at.clocks = &scale_;
      for (const int64_t device : team.devices) {
        const size_t d = static_cast<size_t>(device);
        at.die = die[d];
        at.limit = conditions_.power_limit[d];
        at.board = machine.boards[d];
        at.locked_steps = conditions_.locked_steps[d];
        if (before) at.guess = before->devices[d][u].clock_index;
        state.devices[d].push_back(choose_device_phase(job, table(team, use), at));
      }
    }
  }
}

namespace {

/// The slowest member's time for each phase.
std::vector<Seconds> team_durations(const Team& team, const ClockState& clocks, size_t num_uses) {
  std::vector<Seconds> durations(num_uses);
  for (const int64_t device : team.devices)
    for (size_t u = 0; u < num_uses; ++u)
      durations[u] =
          std::max(durations[u], clocks.devices[static_cast<size_t>(device)][u].duration);
  return durations;
}

}  // namespace

/// From the phases a stage uses to what its chunks' actions play.
std::vector<std::array<Seconds, action_kind_count>> StepModel::by_chunk(
    size_t s, const std::vector<Seconds>& of_uses) const {
  std::vector<std::array<Seconds, action_kind_count>> times(
      static_cast<size_t>(graph.virtual_stages));
  for (size_t chunk = 0; chunk < times.size(); ++chunk)
    for (size_t u = 0; u < uses[s].size(); ++u)
      if (static_cast<size_t>(work_of(graph, s, static_cast<int32_t>(chunk))) == uses[s][u].work)
        times[chunk][static_cast<size_t>(uses[s][u].kind)] = of_uses[u];
  return times;
}

/// What the schedule needs of one pipeline, from its teams' phases.
std::vector<StageTimes> StepModel::stage_times(
    const std::vector<std::vector<Seconds>>& durations) const {
  std::vector<StageTimes> times(durations.size());
  for (size_t s = 0; s < times.size(); ++s)
    times[s] = {.program = &graph.programs[s], .durations = by_chunk(s, durations[s])};
  return times;
}

/// [pipeline][stage]; what their phases wait for the fabric.
std::vector<std::vector<TeamOnCores>> StepModel::teams_on_cores() {
  std::vector<std::vector<TeamOnCores>> all;
  for (const Pipeline& pipeline : pipelines) {
    std::vector<TeamOnCores>& teams = all.emplace_back();
    for (const Team& team : pipeline.teams) {
      const auto s = static_cast<size_t>(team.stage);
      std::vector<Seconds> waiting;
      for (const PhaseUse& use : uses[s]) {
        const PhasePoint point = table(team, use).at(0, team.host_factor);
        waiting.push_back(waiting_of(point.load, point.duration));
      }
      teams.push_back({static_cast<int64_t>(team.devices.size()), by_chunk(s, waiting)});
    }
  }
  return all;
}

PlayedStep StepModel::play_step(const ClockState& clocks) {
  PlayedStep step;
  play_again(clocks, step);
  return step;
}

void StepModel::play_again(const ClockState& clocks, PlayedStep& step) {
  std::vector<std::vector<StageTimes>> times;
  std::vector<char> changed;
  step.phase_durations.resize(pipelines.size());
  for (size_t p = 0; p < pipelines.size(); ++p) {
    std::vector<std::vector<Seconds>> durations;
    for (size_t s = 0; s < pipelines[p].teams.size(); ++s)
      durations.push_back(team_durations(pipelines[p].teams[s], clocks, uses[s].size()));
    times.push_back(stage_times(durations));
    changed.push_back(durations != step.phase_durations[p] ? 1 : 0);
    step.phase_durations[p] = std::move(durations);
  }
  const PlayRules rules{.gap = job.stack.microbatch_gap, .start = job.stack.step_overhead};
  const int64_t cores = job.cluster.shared_cores;
  if (cores > 0)
    step.pipelines = play_on_shared_cores(times, teams_on_cores(), *wiring_, rules, cores);
  else
    sim::play_again({.pipelines = times, .changed = changed, .threads = threads_}, *wiring_, rules,
                    step.pipelines);
  step.step_time = Seconds();
  finish_step(step);
}

/// Gradient reduction over the replicas, the norm over the whole model, optimizer, parameter
/// gather.
void StepModel::finish_step(PlayedStep& step) const {
  const size_t stages = static_cast<size_t>(graph.stages);
  // At the end of a step all ranks are at work at once.
  const double cores = static_cast<double>(job.cluster.shared_cores);
  const double crowd = cores > 0 ? std::max(1.0, static_cast<double>(job.world_size()) / cores) : 1;
  step.ends.assign(step.pipelines.size(), std::vector<StepEnd>(stages));
  Seconds norm_ready;
  for (size_t s = 0; s < stages; ++s) {
    const PricedEnd& end = end_of(s);
    Seconds replicas_ready;
    for (const auto& played : step.pipelines)
      replicas_ready = std::max(replicas_ready, played[s].finish);
    for (size_t p = 0; p < step.pipelines.size(); ++p) {
      StepEnd& at = step.ends[p][s];
      at.finish = step.pipelines[p][s].finish;
      at.sync_begin = end.waits_for_replicas ? replicas_ready : at.finish;
      const workload::Action& last = step.pipelines[p][s].actions.back().action;
      at.sync_end =
          at.sync_begin + crowded_time(end.gradient_sync,
                                       crowd * step.phase_durations[p][s][use_of(s, last)], crowd);
      norm_ready = std::max(norm_ready, at.sync_end);
    }
  }
  for (size_t p = 0; p < step.pipelines.size(); ++p)
    for (size_t s = 0; s < stages; ++s) {
      const PricedEnd& end = end_of(s);
      StepEnd& at = step.ends[p][s];
      at.norm_begin = norm_ready;
      at.norm_end = norm_ready + crowd * total_time(end.gradient_norm);
      at.optimizer_end = at.norm_end + crowd * total_time(end.optimizer);
      const Seconds forward = crowd * step.phase_durations[p][s].front();
      at.end = at.optimizer_end + crowded_time(end.parameter_sync, forward, crowd);
      step.step_time = std::max(step.step_time, at.end);
    }
}

}  // namespace triplepoint::sim
