// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_model.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/expect.h"

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/step_end.h"

namespace triplepoint::sim {
namespace {

using clock::ClockEventReason;
using workload::ActionKind;

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
      pipelines(form_pipelines(job, graph, machine)),
      sends(price_boundaries(job, graph, pipelines)),
      wiring_(sends.boundaries, sends.capacities,
              job.plan.overlap_pipeline ? SendMode::overlapped : SendMode::blocking) {
  const spec::GovernorCoefficients& governor = *job.cluster.gpu.governor;
  const Hertz max_clock = *job.cluster.gpu.max_clock;
  step_ratio_ = governor.clock_step / max_clock;
  clock_steps_ =
      static_cast<int64_t>(std::floor((max_clock - governor.min_clock) / governor.clock_step));
  build_tables();
  for (const workload::StepWork& work : graph.step_works)
    ends.push_back(price_end(job, graph, work));
}

/// A table per distinct (chunk work, action kind); per stage, which of them it plays and how often.
void StepModel::build_tables() {
  constexpr size_t none = ~size_t{0};
  std::vector<size_t> table_of(graph.works.size() * action_kind_count, none);
  uses.resize(static_cast<size_t>(graph.stages));
  for (size_t stage = 0; stage < uses.size(); ++stage) {
    for (const workload::Action& action : graph.programs[stage]) {
      const size_t work = static_cast<size_t>(work_of(graph, stage, action.chunk));
      size_t& table = table_of[work * action_kind_count + static_cast<size_t>(action.kind)];
      if (table == none) {
        table = tables.size();
        tables.emplace_back(price_action(job, graph, graph.works[work], action.kind), job.stack,
                            clock_steps_, step_ratio_);
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
                       wiring_.mode(), kind);
}

DevicePhase StepModel::choose_phase(const PhaseUse& use, const spec::GpuLoad& exchange,
                                    size_t device, double host_factor, Celsius die, Watts limit) {
  return choose_device_phase(job, tables[use.table],
                             {.exchange = exchange,
                              .host_factor = host_factor,
                              .die = die,
                              .limit = limit,
                              .board = machine.boards[device]});
}

ClockState StepModel::choose_clocks(std::span<const Celsius> die) {
  ClockState state;
  state.devices.resize(static_cast<size_t>(job.cluster.num_gpus()));
  const Watts limit = job.power_limit();
  for (size_t p = 0; p < pipelines.size(); ++p)
    for (const Team& team : pipelines[p].teams)
      for (const PhaseUse& use : uses[static_cast<size_t>(team.stage)]) {
        const spec::GpuLoad exchange = exchange_after(p, static_cast<size_t>(team.stage), use.kind);
        for (const int64_t device : team.devices) {
          const size_t d = static_cast<size_t>(device);
          state.devices[d].push_back(
              choose_phase(use, exchange, d, team.host_factor, die[d], limit));
        }
      }
  return state;
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

/// What the schedule needs of one pipeline, from its teams' phases.
std::vector<StageTimes> StepModel::stage_times(
    const std::vector<std::vector<Seconds>>& durations) const {
  std::vector<StageTimes> times(durations.size());
  for (size_t s = 0; s < times.size(); ++s) {
    times[s].program = &graph.programs[s];
    times[s].durations.resize(static_cast<size_t>(graph.virtual_stages));
    for (size_t chunk = 0; chunk < times[s].durations.size(); ++chunk)
      for (size_t u = 0; u < uses[s].size(); ++u)
        if (static_cast<size_t>(work_of(graph, s, static_cast<int32_t>(chunk))) == uses[s][u].work)
          times[s].durations[chunk][static_cast<size_t>(uses[s][u].kind)] = durations[s][u];
  }
  return times;
}

PlayedStep StepModel::play_step(const ClockState& clocks) {
  PlayedStep step;
  std::vector<std::vector<StageTimes>> times;
  for (const Pipeline& pipeline : pipelines) {
    std::vector<std::vector<Seconds>>& durations = step.phase_durations.emplace_back();
    for (size_t s = 0; s < pipeline.teams.size(); ++s)
      durations.push_back(team_durations(pipeline.teams[s], clocks, uses[s].size()));
    times.push_back(stage_times(durations));
  }
  step.pipelines =
      play(times, wiring_, {.gap = job.stack.microbatch_gap, .start = job.stack.step_overhead});
  finish_step(step);
  return step;
}

/// Gradient reduction over the replicas, the norm over the whole model, optimizer, parameter
/// gather.
void StepModel::finish_step(PlayedStep& step) const {
  const size_t stages = static_cast<size_t>(graph.stages);
  step.ends.assign(step.pipelines.size(), std::vector<StepEnd>(stages));
  Seconds norm_ready;
  for (size_t s = 0; s < stages; ++s) {
    const PricedEnd& end = ends[static_cast<size_t>(graph.step_work[s])];
    Seconds replicas_ready;
    for (const auto& played : step.pipelines)
      replicas_ready = std::max(replicas_ready, played[s].finish);
    for (size_t p = 0; p < step.pipelines.size(); ++p) {
      StepEnd& at = step.ends[p][s];
      at.finish = step.pipelines[p][s].finish;
      at.sync_begin = end.waits_for_replicas ? replicas_ready : at.finish;
      const workload::Action& last = step.pipelines[p][s].actions.back().action;
      at.sync_end = at.sync_begin +
                    exposed_time(end.gradient_sync, step.phase_durations[p][s][use_of(s, last)]);
      norm_ready = std::max(norm_ready, at.sync_end);
    }
  }
  for (size_t p = 0; p < step.pipelines.size(); ++p)
    for (size_t s = 0; s < stages; ++s) {
      const PricedEnd& end = ends[static_cast<size_t>(graph.step_work[s])];
      StepEnd& at = step.ends[p][s];
      at.norm_begin = norm_ready;
      at.norm_end = norm_ready + total_time(end.gradient_norm);
      at.optimizer_end = at.norm_end + total_time(end.optimizer);
      const Seconds forward = step.phase_durations[p][s].front();
      at.end = at.optimizer_end + exposed_time(end.parameter_sync, forward);
      step.step_time = std::max(step.step_time, at.end);
    }
}

}  // namespace triplepoint::sim
