// SPDX-License-Identifier: Apache-2.0
// Energy and clocks of one device over a simulated step.
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

void add_ops(spec::GpuLoad& load, const std::vector<OpEstimate>& ops) {
  for (const OpEstimate& estimate : ops) {
    add_work(load, estimate);
    add_time(load, estimate, estimate.at(1));
  }
}

}  // namespace

/// Everything outside the phases and their exchanges: waiting for data, the step's end.
spec::GpuLoad StepModel::load_outside_phases(const StepTimeline& step, size_t pipeline,
                                             size_t stage) const {
  const StageTimeline& timeline = step.pipelines[pipeline][stage];
  const StepEpilogue& at = step.epilogues[pipeline][stage];
  const EpilogueEstimate& end = epilogue_of(stage);
  spec::GpuLoad load;
  add_ops(load, end.gradient_sync);
  add_ops(load, end.gradient_norm);
  add_ops(load, end.optimizer);
  add_ops(load, end.parameter_sync);
  load.communicating = std::min(load.communicating, step.step_time - at.sync_begin);
  load.communicating_scale_out = std::min(load.communicating_scale_out, load.communicating);
  load.waiting = timeline.waited + (at.sync_begin - at.finish) + (at.norm_begin - at.sync_end) +
                 (step.step_time - at.end);
  return load;
}

/// All gaps and sends of a simulated step, by the phase they follow.
std::vector<spec::GpuLoad> StepModel::exchanges(const StageTimeline& timeline, size_t pipeline,
                                                size_t stage) const {
  std::vector<spec::GpuLoad> loads(uses[stage].size()), alone;
  for (const PhaseUse& use : uses[stage])
    alone.push_back(exchange_after(pipeline, stage, use.kind));
  for (const ActionTimes& action : timeline.actions) {
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

void StepModel::update_group(const StepTimeline& step, size_t pipeline, size_t stage,
                             bool rescheduled, GroupStep& group) const {
  if (rescheduled) group.between = exchanges(step.pipelines[pipeline][stage], pipeline, stage);
  group.outside = load_outside_phases(step, pipeline, stage);
  group.in_phases = Seconds();
  group.step_time = step.step_time;
  for (size_t u = 0; u < uses[stage].size(); ++u)
    group.in_phases +=
        static_cast<double>(uses[stage][u].count) * step.phase_durations[pipeline][stage][u] +
        group.between[u].duration;
}

/// Phases at their clocks, and what lies between them. Lockstep waits, gaps and sends are shorter
/// than the governor's window: the clock stays.
void StepModel::account_phases(const std::vector<DevicePhase>& phases, const StepTimeline& step,
                               const GroupStep& group_step, size_t device, Lockstep waits,
                               DeviceStep& sum) {
  const auto [pipeline, stage] = places_[device];
  const LockstepGroup& group = pipelines[pipeline].groups[stage];
  const power::BoardFactors& board = hardware.boards[device];
  sum = {};
  sum.scale_up_bytes = group_step.outside.scale_up_bytes;
  sum.scale_out_bytes = group_step.outside.scale_out_bytes;
  for (size_t u = 0; u < uses[stage].size(); ++u) {
    const PhaseUse& use = uses[stage][u];
    const DevicePhase& phase = phases[u];
    const spec::GpuLoad& between = group_step.between[u];
    const double count = static_cast<double>(use.count);
    const Seconds lockstep =
        waits == Lockstep::alone
            ? Seconds()
            : std::max(Seconds(), step.phase_durations[pipeline][stage][u] - phase.duration);
    for (const auto& [index, share] : clocks_of(phase)) {
      if (share == 0) continue;
      spec::GpuLoad lasting = table(group, use).at(index, group.host_factor).load;
      lasting.duration += lockstep;
      lasting.waiting += lockstep;
      if (has_power()) {
        const power::ClockPoint& clock = scale_.applied[static_cast<size_t>(index)];
        const Celsius reference = power().reference_temperature;
        sum.phases_at_reference +=
            share * count * power::energy_of(power(), lasting, clock, reference, board);
        sum.phases_at_reference +=
            share * power::energy_of(power(), between, clock, reference, board);
      }
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
void StepModel::account_rest(const GroupStep& group, size_t device, double heat_ceiling,
                             Seconds step_time, DeviceStep& sum) const {
  if (!has_power()) return;
  spec::GpuLoad rest = group.outside;
  sum.duration = std::max(step_time, sum.in_phases);
  rest.duration = sum.duration - sum.in_phases;
  rest.waiting = std::max(Seconds(), rest.waiting + (sum.duration - group.step_time) -
                                         (sum.in_phases - group.in_phases));
  const int64_t locked = conditions_.locked_steps[device];
  const double resting_steps = std::max(static_cast<double>(locked), heat_ceiling);
  const power::ClockPoint clock = heat_ceiling > static_cast<double>(locked)
                                      ? power::clock_point(power(), clock_ratio(resting_steps))
                                      : scale_.applied[static_cast<size_t>(locked)];
  sum.at_reference = sum.phases_at_reference;
  sum.at_reference += power::energy_of(power(), rest, clock, power().reference_temperature,
                                       hardware.boards[device]);
  sum.mean_clock_ratio =
      (sum.clock_seconds + clock_ratio(resting_steps) * (rest.duration / unit::s)) /
      (sum.duration / unit::s);
}

AccountedStep StepModel::account(const ClockState& clocks, const StepTimeline& step) {
  AccountedStep accounted;
  accounted.devices.resize(places_.size());
  accounted.groups.resize(pipelines.size(), std::vector<GroupStep>(uses.size()));
  account_again(clocks, step,
                {.pipelines = std::vector<char>(pipelines.size(), 1),
                 .devices = std::vector<char>(places_.size(), 1)},
                step.step_time, accounted);
  return accounted;
}

void StepModel::account_again(const ClockState& clocks, const StepTimeline& step,
                              const Changed& changed, Seconds step_time, AccountedStep& accounted) {
  const auto account_pipeline = [&](size_t p) {
    const bool rescheduled = changed.pipelines[p] != 0;
    for (const LockstepGroup& group : pipelines[p].groups) {
      const size_t stage = static_cast<size_t>(group.stage);
      GroupStep& of_group = accounted.groups[p][stage];
      update_group(step, p, stage, rescheduled, of_group);
      for (const int64_t device : group.devices) {
        const size_t d = static_cast<size_t>(device);
        DeviceStep& of = accounted.devices[d];
        if (rescheduled || changed.devices[d] != 0)
          account_phases(clocks.devices[d], step, of_group, d, Lockstep::of_group, of);
        account_rest(of_group, d, clocks.heat_ceiling[d], step_time, of);
      }
    }
  };
  parallel_for(pipelines.size(), threads_, account_pipeline);
}

void StepModel::set_dies(std::span<const Celsius> die, std::vector<DeviceStep>& devices) const {
  if (!has_power()) return;
  for (size_t d = 0; d < devices.size(); ++d) {
    DeviceStep& device = devices[d];
    device.ledger = power::at_die(power(), device.at_reference, device.duration,
                                  power::leakage_growth(power(), die[d]));
    device.mean_power = device.ledger.total() / device.duration;
  }
}

Watts StepModel::power_under_ceiling(const ClockState& clocks, const StepTimeline& step,
                                     const AccountedStep& accounted, size_t device,
                                     const Ceiling& ceiling) {
  const auto& [heat_ceiling, length, die] = ceiling;
  const GroupStep& group = accounted.groups[places_[device].pipeline][places_[device].stage];
  const std::vector<DevicePhase> phases =
      choose_phases(device, die, heat_ceiling, Hysteresis::only_down, &clocks.devices[device]);
  DeviceStep sum;
  account_phases(phases, step, group, device, Lockstep::alone, sum);
  const Seconds own_pace = group.step_time + (sum.in_phases - group.in_phases);
  account_rest(group, device, heat_ceiling, std::max(length, own_pace), sum);
  const power::EnergyLedger ledger =
      power::at_die(power(), sum.at_reference, sum.duration, power::leakage_growth(power(), die));
  return ledger.total() / sum.duration;
}

}  // namespace triplepoint::sim
