// SPDX-License-Identifier: Apache-2.0
// Energy and clocks of one device over a played step.
#include <algorithm>

#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {
namespace {

using clock::ClockEventReason;

power::EnergyLedger operator*(double times, power::EnergyLedger ledger) {
  ledger.idle *= times;
  ledger.leakage *= times;
  ledger.compute *= times;
  ledger.memory *= times;
  ledger.communication *= times;
  ledger.waiting *= times;
  return ledger;
}

void add_ops(spec::GpuLoad& load, const std::vector<PricedOp>& ops) {
  for (const PricedOp& priced : ops) {
    add_work(load, priced);
    add_time(load, priced, priced.at(1));
  }
}

}  // namespace

/// Everything outside the phases and their exchanges: waiting for data, the step's end.
spec::GpuLoad StepModel::load_outside_phases(const PlayedStep& step, size_t pipeline,
                                             size_t stage) const {
  const PlayedStage& played = step.pipelines[pipeline][stage];
  const StepEnd& at = step.ends[pipeline][stage];
  const PricedEnd& end = end_of(stage);
  spec::GpuLoad load;
  add_ops(load, end.gradient_sync);
  add_ops(load, end.gradient_norm);
  add_ops(load, end.optimizer);
  add_ops(load, end.parameter_sync);
  load.communicating = std::min(load.communicating, step.step_time - at.sync_begin);
  load.communicating_scale_out = std::min(load.communicating_scale_out, load.communicating);
  load.waiting = played.waited + (at.sync_begin - at.finish) + (at.norm_begin - at.sync_end) +
                 (step.step_time - at.end);
  return load;
}

/// All gaps and sends of a played step, by the phase they follow.
std::vector<spec::GpuLoad> StepModel::exchanges(const PlayedStage& played, size_t pipeline,
                                                size_t stage) const {
  std::vector<spec::GpuLoad> loads(uses[stage].size()), alone;
  for (const PhaseUse& use : uses[stage])
    alone.push_back(exchange_after(pipeline, stage, use.kind));
  for (const PlayedAction& action : played.actions) {
    const size_t use = use_of(stage, action.action);
    spec::GpuLoad exchange = alone[use];
    exchange.communicating = action.sent;
    if (exchange.scale_out_bytes > Bytes()) exchange.communicating_scale_out = action.sent;
    exchange.duration = job.stack.microbatch_gap;
    if (wiring_->mode() == SendMode::blocking) exchange.duration += action.sent;
    loads[use] += exchange;
  }
  return loads;
}

void StepModel::update_team(const PlayedStep& step, size_t pipeline, size_t stage, bool replayed,
                            TeamStep& team) const {
  if (replayed) team.between = exchanges(step.pipelines[pipeline][stage], pipeline, stage);
  team.outside = load_outside_phases(step, pipeline, stage);
  team.in_phases = Seconds();
  team.step_time = step.step_time;
  for (size_t u = 0; u < uses[stage].size(); ++u)
    team.in_phases +=
        static_cast<double>(uses[stage][u].count) * step.phase_durations[pipeline][stage][u] +
        team.between[u].duration;
}

/// Phases at their clocks, and what lies between them. Lockstep waits, gaps and sends are shorter
/// than the governor's window: the clock stays.
void StepModel::account_phases(const std::vector<DevicePhase>& phases, const PlayedStep& step,
                               const TeamStep& team_step, size_t device, Lockstep waits,
                               DeviceStep& sum) {
  const auto [pipeline, stage] = places_[device];
  const Team& team = pipelines[pipeline].teams[stage];
  const power::BoardFactors& board = machine.boards[device];
  const Celsius reference = power().reference_temperature;
  sum = {};
  sum.scale_up_bytes = team_step.outside.scale_up_bytes;
  sum.scale_out_bytes = team_step.outside.scale_out_bytes;
  for (size_t u = 0; u < uses[stage].size(); ++u) {
    const PhaseUse& use = uses[stage][u];
    const DevicePhase& phase = phases[u];
    const spec::GpuLoad& between = team_step.between[u];
    const double count = static_cast<double>(use.count);
    const Seconds lockstep =
        waits == Lockstep::alone
            ? Seconds()
            : std::max(Seconds(), step.phase_durations[pipeline][stage][u] - phase.duration);
    for (const auto& [index, share] : clocks_of(phase)) {
      if (share == 0) continue;
      spec::GpuLoad lasting = table(team, use).at(index, team.host_factor).load;
      lasting.duration += lockstep;
      lasting.waiting += lockstep;
      const power::ClockPoint& clock = scale_.played[static_cast<size_t>(index)];
      sum.phases_at_reference +=
          share * count * power::energy_of(power(), lasting, clock, reference, board);
      sum.phases_at_reference +=
          share * power::energy_of(power(), between, clock, reference, board);
      sum.scale_up_bytes += share * count * lasting.scale_up_bytes;
      sum.scale_out_bytes += share * count * lasting.scale_out_bytes;
    }
    sum.scale_up_bytes += between.scale_up_bytes;
    sum.scale_out_bytes += between.scale_out_bytes;
    const Seconds at_this_clock = count * (phase.duration + lockstep) + between.duration;
    sum.in_phases += at_this_clock;
    sum.clock_seconds += clock_ratio(phase.steps_down()) * (at_this_clock / unit::s);
    if (phase.reason == ClockEventReason::software_power_cap)
      sum.throttled_power += at_this_clock;
    else if (clock::is_throttled(phase.reason))
      sum.throttled_thermal += at_this_clock;
  }
}

/// What is left of the step: it waits, at the highest clock that is allowed. A lock and a ceiling
/// of heat hold there too.
void StepModel::account_rest(const TeamStep& team, size_t device, double heat_ceiling,
                             Seconds step_time, DeviceStep& sum) const {
  spec::GpuLoad rest = team.outside;
  sum.duration = std::max(step_time, sum.in_phases);
  rest.duration = sum.duration - sum.in_phases;
  rest.waiting = std::max(
      Seconds(), rest.waiting + (sum.duration - team.step_time) - (sum.in_phases - team.in_phases));
  const int64_t locked = conditions_.locked_steps[device];
  const double resting_steps = std::max(static_cast<double>(locked), heat_ceiling);
  const power::ClockPoint clock = heat_ceiling > static_cast<double>(locked)
                                      ? power::clock_point(power(), clock_ratio(resting_steps))
                                      : scale_.played[static_cast<size_t>(locked)];
  sum.at_reference = sum.phases_at_reference;
  sum.at_reference +=
      power::energy_of(power(), rest, clock, power().reference_temperature, machine.boards[device]);
  sum.mean_clock_ratio =
      (sum.clock_seconds + clock_ratio(resting_steps) * (rest.duration / unit::s)) /
      (sum.duration / unit::s);
}

AccountedStep StepModel::account(const ClockState& clocks, const PlayedStep& step) {
  AccountedStep accounted;
  accounted.devices.resize(places_.size());
  accounted.teams.resize(pipelines.size(), std::vector<TeamStep>(uses.size()));
  account_again(clocks, step,
                {.pipelines = std::vector<char>(pipelines.size(), 1),
                 .devices = std::vector<char>(places_.size(), 1)},
                step.step_time, accounted);
  return accounted;
}

void StepModel::account_again(const ClockState& clocks, const PlayedStep& step,
                              const Changed& changed, Seconds step_time, AccountedStep& accounted) {
  const auto account_pipeline = [&](size_t p) {
    const bool replayed = changed.pipelines[p] != 0;
    for (const Team& team : pipelines[p].teams) {
      const size_t stage = static_cast<size_t>(team.stage);
      TeamStep& of_team = accounted.teams[p][stage];
      update_team(step, p, stage, replayed, of_team);
      for (const int64_t device : team.devices) {
        const size_t d = static_cast<size_t>(device);
        DeviceStep& of = accounted.devices[d];
        if (replayed || changed.devices[d] != 0)
          account_phases(clocks.devices[d], step, of_team, d, Lockstep::of_team, of);
        account_rest(of_team, d, clocks.heat_ceiling[d], step_time, of);
      }
    }
  };
  parallel_for(pipelines.size(), threads_, account_pipeline);
}

void StepModel::set_dies(std::span<const Celsius> die, std::vector<DeviceStep>& devices) const {
  for (size_t d = 0; d < devices.size(); ++d) {
    DeviceStep& device = devices[d];
    device.ledger = power::at_die(power(), device.at_reference, device.duration,
                                  power::leakage_growth(power(), die[d]));
    device.mean_power = device.ledger.total() / device.duration;
  }
}

Watts StepModel::power_under_ceiling(const ClockState& clocks, const PlayedStep& step,
                                     const AccountedStep& accounted, size_t device,
                                     const Ceiling& ceiling) {
  const auto& [heat_ceiling, length, die] = ceiling;
  const TeamStep& team = accounted.teams[places_[device].pipeline][places_[device].stage];
  const std::vector<DevicePhase> phases =
      choose_phases(device, die, heat_ceiling, Hysteresis::only_down, &clocks.devices[device]);
  DeviceStep sum;
  account_phases(phases, step, team, device, Lockstep::alone, sum);
  const Seconds own_pace = team.step_time + (sum.in_phases - team.in_phases);
  account_rest(team, device, heat_ceiling, std::max(length, own_pace), sum);
  const power::EnergyLedger ledger =
      power::at_die(power(), sum.at_reference, sum.duration, power::leakage_growth(power(), die));
  return ledger.total() / sum.duration;
}

}  // namespace triplepoint::sim
