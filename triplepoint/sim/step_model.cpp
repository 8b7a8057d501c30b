// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_model.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/shared_cores.h"
#include "triplepoint/sim/step_epilogue.h"

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

EpilogueEstimate estimate_epilogue(const spec::Job& job, const workload::WorkGraph& graph,
                                   const workload::StepWork& work) {
  const auto estimate_all = [&](const std::vector<spec::Op>& ops) {
    std::vector<OpEstimate> estimate;
    estimate.reserve(ops.size());
    for (const spec::Op& op : ops)
      estimate.push_back(estimate_op(job, graph, op));
    return estimate;
  };
  EpilogueEstimate end{.gradient_sync = estimate_all(work.gradient_sync),
                       .gradient_norm = estimate_all(work.gradient_norm),
                       .optimizer = estimate_all(work.optimizer),
                       .parameter_sync = estimate_all(work.parameter_sync)};
  for (const OpEstimate& estimate : end.gradient_sync)
    end.waits_for_replicas |=
        estimate.op->is_communication() && graph.grid.shape(estimate.op->group).ranks > 1;
  return end;
}

Seconds exposed_time(const std::vector<OpEstimate>& ops, Seconds cover) {
  Seconds exposed, hidden;
  for (const OpEstimate& estimate : ops)
    (estimate.hidden ? hidden : exposed) += estimate.at(1);
  return exposed + std::max(Seconds(), hidden - cover);
}

Seconds total_time(const std::vector<OpEstimate>& ops) {
  Seconds total;
  for (const OpEstimate& estimate : ops)
    total += estimate.at(1);
  return total;
}

StepModel::StepModel(const spec::Job& the_job, const workload::WorkGraph& the_graph)
    : job(the_job),
      graph(the_graph),
      hardware(draw_hardware_variation(the_job)),
      pipelines(form_pipelines(job, graph, hardware)) {
  find_uses();
  find_places();
  if (has_power()) {
    const spec::GovernorCoefficients& governor = *job.cluster.gpu.governor;
    const Hertz max_clock = *job.cluster.gpu.max_clock;
    step_ratio_ = governor.clock_step / max_clock;
    clock_steps_ =
        static_cast<int64_t>(std::floor((max_clock - governor.min_clock) / governor.clock_step));
    scale_ = clock_scale(job.cluster.gpu, clock_steps_);
  }
  if (job.cluster.num_gpus() >= fewest_devices_for_threads) threads_ = available_threads();
  set_conditions(lasting_conditions(job));
}

/// A table per distinct (chunk work, action kind); per stage, which of them it runs and how often.
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

void StepModel::find_places() {
  places_.resize(static_cast<size_t>(job.cluster.num_gpus()));
  for (size_t p = 0; p < pipelines.size(); ++p)
    for (size_t s = 0; s < pipelines[p].groups.size(); ++s)
      for (const int64_t device : pipelines[p].groups[s].devices)
        places_[static_cast<size_t>(device)] = {p, s};
}

/// Index of these shares; estimates them the first time.
size_t StepModel::links_of(const LinkShares& shares) {
  const auto known = std::find(known_shares_.begin(), known_shares_.end(), shares);
  if (known != known_shares_.end()) return static_cast<size_t>(known - known_shares_.begin());
  spec::Job slowed = job;
  slowed.cluster.scale_up.bandwidth *= shares.scale_up;
  slowed.cluster.scale_out.nic_bandwidth *= shares.scale_out;
  for (const auto& [work, kind] : table_works_)
    tables_.emplace_back(estimate_action(slowed, graph, graph.works[work], kind), job.stack,
                         clock_steps_, step_ratio_);
  if (threads_ > 1)
    for (PhaseTable& table : tables_)
      table.fill();
  for (const workload::StepWork& work : graph.step_works)
    epilogues_.push_back(estimate_epilogue(slowed, graph, work));
  known_shares_.push_back(shares);
  return known_shares_.size() - 1;
}

/// A ring goes as fast as its slowest link.
StepModel::LinkShares StepModel::shares_of(const LockstepGroup& group) const {
  LinkShares least;
  for (const int64_t device : group.devices) {
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
    for (LockstepGroup& group : pipeline.groups) {
      group.host_factor = 0;
      for (const int64_t device : group.devices) {
        const auto node = static_cast<size_t>(device / job.cluster.gpus_per_node);
        group.host_factor =
            std::max(group.host_factor, conditions_.host_factor[node] * hardware.host_factor[node]);
      }
      const LinkShares shares = shares_of(group);
      group.links = links_of(shares);
      LinkShares& stage = of_stage[static_cast<size_t>(group.stage)];
      stage.scale_up = std::min(stage.scale_up, shares.scale_up);
      stage.scale_out = std::min(stage.scale_out, shares.scale_out);
    }
  epilogue_links_.clear();
  for (const LinkShares& shares : of_stage)
    epilogue_links_.push_back(links_of(shares));
  sends = estimate_boundaries(job, graph, pipelines, &conditions_);
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

/// What lies between a phase and the next, as far as it is known before the step is simulated: the
/// host's gap and the boundary tensor at the rate it has alone.
spec::GpuLoad StepModel::exchange_after(size_t pipeline, size_t stage,
                                        workload::ActionKind kind) const {
  const Direction way =
      kind == workload::ActionKind::forward ? Direction::next : Direction::previous;
  return exchange_load(job.stack, sends.estimates[pipeline][stage][static_cast<size_t>(way)],
                       wiring_->mode(), kind);
}

namespace {

// A clock step costs a die 0.2 to 0.5 K in steady state (some 9 W at 0.025 to 0.06 K/W). A governor
// goes up again only where the cap holds with that much on top, or it would swing for ever.
constexpr Kelvins rise_of_a_step = 0.3 * unit::K;

bool keeps_choice(const DevicePhase& phase, Celsius die, Hysteresis hysteresis) {
  if (die > phase.hottest) return false;
  if (hysteresis == Hysteresis::only_down) return true;
  if (hysteresis == Hysteresis::some) return die > phase.coldest - rise_of_a_step;
  return die > phase.coldest;
}

}  // namespace

/// What is left of a choice under a ceiling that heat sets: where it lies between two clocks, a
/// mean over both.
DevicePhase StepModel::hold_under(double heat_ceiling, DevicePhase phase, PhaseTable& table,
                                  const PhaseConditions& at) const {
  const double steps =
      std::clamp(heat_ceiling, static_cast<double>(phase.capped_index), most_steps_down());
  if (steps == phase.steps_down()) return phase;
  phase.clock_index = static_cast<int64_t>(steps);
  phase.share_below = steps - static_cast<double>(phase.clock_index);
  phase.reason = ClockEventReason::none;
  if (at.locked_steps > 0) phase.reason = ClockEventReason::application_clocks;
  if (phase.capped_index > at.locked_steps) phase.reason = ClockEventReason::software_power_cap;
  if (steps > static_cast<double>(phase.capped_index))
    phase.reason = clock::heat_reason(*job.cluster.gpu.governor, at.die);
  phase.duration = Seconds();
  for (const auto& [index, share] : clocks_of(phase))
    phase.duration += share * table.at(index, at.host_factor).duration;
  phase.power = power_of(phase, table, at);
  return phase;
}

/// Mean power of a phase and the exchange after it.
Watts StepModel::power_of(const DevicePhase& phase, PhaseTable& table,
                          const PhaseConditions& at) const {
  Seconds duration;
  Joules energy;
  for (const auto& [index, share] : clocks_of(phase)) {
    spec::GpuLoad load = table.at(index, at.host_factor).load;
    load += at.exchange;
    duration += share * load.duration;
    energy += share * load.duration *
              power::gpu_power(power(), load, scale_.applied[static_cast<size_t>(index)], at.die,
                               at.board);
  }
  return energy / duration;
}

PhaseConditions StepModel::conditions_of(size_t device, Celsius die) const {
  PhaseConditions at{
      .exchange = {},
      .host_factor = pipelines[places_[device].pipeline].groups[places_[device].stage].host_factor,
      .die = die,
      .limit = conditions_.power_limit[device]};
  at.clocks = &scale_;
  at.board = hardware.boards[device];
  at.locked_steps = conditions_.locked_steps[device];
  return at;
}

std::vector<DevicePhase> StepModel::choose_phases(size_t device, Celsius die, double heat_ceiling,
                                                  Hysteresis hysteresis,
                                                  const std::vector<DevicePhase>* before) {
  const auto [pipeline, stage] = places_[device];
  const LockstepGroup& group = pipelines[pipeline].groups[stage];
  std::vector<DevicePhase> phases;
  phases.reserve(uses[stage].size());
  PhaseConditions at = conditions_of(device, die);
  for (size_t u = 0; u < uses[stage].size(); ++u) {
    const PhaseUse& use = uses[stage][u];
    at.exchange = exchange_after(pipeline, stage, use.kind);
    if (before) at.guess = (*before)[u].capped_index;
    const bool keep = before && keeps_choice((*before)[u], die, hysteresis);
    const DevicePhase capped =
        keep ? (*before)[u] : choose_device_phase(job, table(group, use), at);
    phases.push_back(hold_under(heat_ceiling, capped, table(group, use), at));
  }
  return phases;
}

/// Phases of devices that have one clock.
std::vector<DevicePhase> StepModel::phases_at_one_clock(const LockstepGroup& group) {
  std::vector<DevicePhase> phases;
  for (const PhaseUse& use : uses[static_cast<size_t>(group.stage)]) {
    DevicePhase& phase = phases.emplace_back();
    phase.duration = table(group, use).at(0, group.host_factor).duration;
  }
  return phases;
}

ClockState StepModel::choose_clocks(std::span<const Celsius> die) {
  ClockState state;
  state.devices.resize(places_.size());
  state.heat_ceiling.assign(places_.size(), 0);
  parallel_for(pipelines.size(), threads_, [&](size_t p) {
    for (const LockstepGroup& group : pipelines[p].groups)
      for (const int64_t device : group.devices) {
        const auto d = static_cast<size_t>(device);
        state.devices[d] = has_power() ? choose_phases(d, die[d], 0, Hysteresis::none, nullptr)
                                       : phases_at_one_clock(group);
      }
  });
  return state;
}

void StepModel::set_phase_powers(std::span<const Celsius> die, ClockState& state) {
  if (!has_power()) return;
  for (size_t d = 0; d < places_.size(); ++d) {
    const auto [pipeline, stage] = places_[d];
    PhaseConditions at = conditions_of(d, die[d]);
    for (size_t u = 0; u < uses[stage].size(); ++u) {
      const PhaseUse& use = uses[stage][u];
      at.exchange = exchange_after(pipeline, stage, use.kind);
      DevicePhase& phase = state.devices[d][u];
      phase.power = power_of(phase, table(pipelines[pipeline].groups[stage], use), at);
    }
  }
}

int StepModel::threads_for(size_t pieces) const {
  return static_cast<int64_t>(pieces) < fewest_devices_for_threads ? 1 : threads_;
}

std::vector<char> StepModel::update_clocks(std::span<const Celsius> die,
                                           std::span<const double> heat_ceiling,
                                           Hysteresis hysteresis, ClockState& state) {
  std::vector<char> changed(places_.size(), 0);
  if (!has_power()) return changed;
  std::vector<size_t> moved;
  for (size_t d = 0; d < places_.size(); ++d)
    if (heat_ceiling[d] != state.heat_ceiling[d] ||
        !std::ranges::all_of(state.devices[d], [&](const DevicePhase& phase) {
          return keeps_choice(phase, die[d], hysteresis);
        }))
      moved.push_back(d);
  parallel_for(moved.size(), threads_for(moved.size()), [&](size_t i) {
    const size_t d = moved[i];
    std::vector<DevicePhase> phases =
        choose_phases(d, die[d], heat_ceiling[d], hysteresis, &state.devices[d]);
    if (heat_ceiling[d] != state.heat_ceiling[d]) changed[d] = 1;
    for (size_t u = 0; u < phases.size(); ++u)
      if (!phases[u].same_clock(state.devices[d][u])) changed[d] = 1;
    state.devices[d] = std::move(phases);
    state.heat_ceiling[d] = heat_ceiling[d];
  });
  return changed;
}

namespace {

/// The slowest member's time for each phase.
std::vector<Seconds> group_durations(const LockstepGroup& group, const ClockState& clocks,
                                     size_t num_uses) {
  std::vector<Seconds> durations(num_uses);
  for (const int64_t device : group.devices)
    for (size_t u = 0; u < num_uses; ++u)
      durations[u] =
          std::max(durations[u], clocks.devices[static_cast<size_t>(device)][u].duration);
  return durations;
}

}  // namespace

/// From the phases a stage uses to its chunks' actions.
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

/// What the schedule needs of one pipeline, from its lockstep groups' phases.
std::vector<StageTimes> StepModel::stage_times(
    const std::vector<std::vector<Seconds>>& durations) const {
  std::vector<StageTimes> times(durations.size());
  for (size_t s = 0; s < times.size(); ++s)
    times[s] = {.program = &graph.programs[s], .durations = by_chunk(s, durations[s])};
  return times;
}

/// [pipeline][stage]; what their phases wait for the fabric.
std::vector<std::vector<GroupOnCores>> StepModel::groups_on_cores() {
  std::vector<std::vector<GroupOnCores>> all;
  for (const Pipeline& pipeline : pipelines) {
    std::vector<GroupOnCores>& groups = all.emplace_back();
    for (const LockstepGroup& group : pipeline.groups) {
      const auto s = static_cast<size_t>(group.stage);
      std::vector<Seconds> waiting;
      for (const PhaseUse& use : uses[s]) {
        const PhasePoint point = table(group, use).at(0, group.host_factor);
        waiting.push_back(waiting_of(point.load, point.duration));
      }
      groups.push_back({static_cast<int64_t>(group.devices.size()), by_chunk(s, waiting)});
    }
  }
  return all;
}

StepTimeline StepModel::simulate_step(const ClockState& clocks) {
  StepTimeline step;
  update_schedule(clocks, step);
  return step;
}

std::vector<char> StepModel::update_schedule(const ClockState& clocks, StepTimeline& step) {
  std::vector<char> changed(pipelines.size(), 0);
  step.phase_durations.resize(pipelines.size());
  for (size_t p = 0; p < pipelines.size(); ++p) {
    std::vector<std::vector<Seconds>> durations;
    for (size_t s = 0; s < pipelines[p].groups.size(); ++s)
      durations.push_back(group_durations(pipelines[p].groups[s], clocks, uses[s].size()));
    changed[p] = durations != step.phase_durations[p] ? 1 : 0;
    step.phase_durations[p] = std::move(durations);
  }
  const int64_t cores = job.cluster.shared_cores;
  for (const Wiring::Cluster& cluster : wiring_->clusters()) {
    const bool any = cores > 0 || std::ranges::any_of(cluster.pipelines,
                                                      [&](size_t p) { return changed[p] != 0; });
    for (const size_t p : cluster.pipelines)
      changed[p] = any ? 1 : 0;
  }
  std::vector<std::vector<StageTimes>> times(pipelines.size());
  for (size_t p = 0; p < pipelines.size(); ++p)
    if (changed[p]) times[p] = stage_times(step.phase_durations[p]);
  const ScheduleRules rules{.gap = job.stack.microbatch_gap, .start = job.stack.step_overhead};
  if (cores > 0)
    step.pipelines = simulate_on_shared_cores(times, groups_on_cores(), *wiring_, rules, cores);
  else
    sim::update_schedule({.pipelines = times, .changed = changed, .threads = threads_}, *wiring_,
                         rules, step.pipelines);
  step.step_time = Seconds();
  finish_step(step);
  return changed;
}

/// Gradient reduction over the replicas, the norm over the whole model, optimizer, parameter
/// gather.
void StepModel::finish_step(StepTimeline& step) const {
  const size_t stages = static_cast<size_t>(graph.stages);
  // At the end of a step all ranks are at work at once.
  const double cores = static_cast<double>(job.cluster.shared_cores);
  const double oversubscription =
      cores > 0 ? std::max(1.0, static_cast<double>(job.world_size()) / cores) : 1;
  step.epilogues.assign(step.pipelines.size(), std::vector<StepEpilogue>(stages));
  Seconds norm_ready;
  for (size_t s = 0; s < stages; ++s) {
    const EpilogueEstimate& end = epilogue_of(s);
    Seconds replicas_ready;
    for (const auto& timeline : step.pipelines)
      replicas_ready = std::max(replicas_ready, timeline[s].finish);
    for (size_t p = 0; p < step.pipelines.size(); ++p) {
      StepEpilogue& at = step.epilogues[p][s];
      at.finish = step.pipelines[p][s].finish;
      at.sync_begin = end.waits_for_replicas ? replicas_ready : at.finish;
      const workload::Action& last = step.pipelines[p][s].actions.back().action;
      at.sync_end =
          at.sync_begin +
          oversubscribed_time(end.gradient_sync,
                              oversubscription * step.phase_durations[p][s][use_of(s, last)],
                              oversubscription);
      norm_ready = std::max(norm_ready, at.sync_end);
    }
  }
  for (size_t p = 0; p < step.pipelines.size(); ++p)
    for (size_t s = 0; s < stages; ++s) {
      const EpilogueEstimate& end = epilogue_of(s);
      StepEpilogue& at = step.epilogues[p][s];
      at.norm_begin = norm_ready;
      at.norm_end = norm_ready + oversubscription * total_time(end.gradient_norm);
      at.optimizer_end = at.norm_end + oversubscription * total_time(end.optimizer);
      const Seconds forward = oversubscription * step.phase_durations[p][s].front();
      at.end =
          at.optimizer_end + oversubscribed_time(end.parameter_sync, forward, oversubscription);
      step.step_time = std::max(step.step_time, at.end);
    }
}

}  // namespace triplepoint::sim
