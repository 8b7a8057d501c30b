// SPDX-License-Identifier: Apache-2.0
// Energy and clocks of every device over a simulated step.
//
// A step of a device is its phases, what lies between them (gaps and sends), and the rest: waiting
// and the step's epilogue. Energy is added up at the reference temperature first. Only leakage
// depends on the die, and it scales the whole sum by one factor, so that a step whose clocks stay
// is accounted for at another temperature without a walk over its phases (set_dies). That is what
// makes the loop between power and temperature cheap.
//
// Energy is linear in what a load does, at one clock and temperature. So phases are multiplied by
// their counts instead of being walked action by action, and loads of a kind (all gaps and sends
// behind one use) are summed before their energy is computed. Cost: O(devices * uses) per account
// and a walk over the actions of rescheduled pipelines; O(devices) per change of temperature.
//
// Invariant: times of a device add up to the step: in_phases + rest = duration, and the rest never
// becomes negative (a step length that is only assumed may be shorter than the phases; then the
// device itself sets the pace).
#include "triplepoint/sim/energy_account.h"

#include <algorithm>

#include "triplepoint/base/parallel.h"

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

/// Everything outside the phases and their exchanges: waiting for data, the step's end.
spec::GpuLoad load_outside_phases(const StepModel& model, const StepTimeline& step, size_t pipeline,
                                  size_t stage) {
  const StageTimeline& timeline = step.pipelines[pipeline][stage];
  const StepEpilogue& at = step.epilogues[pipeline][stage];
  const EpilogueEstimate& end = model.epilogue_of(stage);
  spec::GpuLoad load;
  add_ops(load, end.gradient_sync);
  add_ops(load, end.gradient_norm);
  add_ops(load, end.optimizer);
  add_ops(load, end.parameter_sync);
  // A reduction that hides behind the backward pass began before sync_begin. Its bytes count here
  // in full, but its time on the wire beyond the end of the step cannot: the device would transfer
  // for longer than it has.
  load.communicating = std::min(load.communicating, step.step_time - at.sync_begin);
  load.communicating_scale_out = std::min(load.communicating_scale_out, load.communicating);
  // All times at which a device sits in a collective or a receive without data: input not there
  // yet, replicas late, other stages late for the norm, other stages not finished at the end.
  load.waiting = timeline.waited + (at.sync_begin - at.finish) + (at.norm_begin - at.sync_end) +
                 (step.step_time - at.end);
  return load;
}

Seconds kernel_time(const spec::GpuLoad& load) {
  return load.computing + load.communicating + load.waiting;
}

/// Of what lies between phases: receives count that are there while the host prepares what follows.
Seconds kernels_between(const StepModel& model, size_t stage, const StageTimeline& timeline,
                        const std::vector<spec::GpuLoad>& loads) {
  Seconds sum = sum_of(loads, [&](const spec::GpuLoad& between) { return kernel_time(between); });
  for (const ActionTimes& action : timeline.actions)
    sum += receive_gap(model, stage, action.action);
  return sum;
}

/// All gaps and sends of a simulated step, by the phase they follow.
std::vector<spec::GpuLoad> exchanges(const StepModel& model, const StageTimeline& timeline,
                                     size_t pipeline, size_t stage) {
  std::vector<spec::GpuLoad> loads(model.uses[stage].size()), alone;
  for (const PhaseUse& use : model.uses[stage])
    alone.push_back(model.exchange_after(pipeline, stage, use.kind));
  for (const ActionTimes& action : timeline.actions) {
    const size_t use = model.use_of(stage, action.action);
    // Bytes are those of the estimate, times those of the schedule, in which sends share links. The
    // last chunk's result stays on its stage: nothing is sent, so no bytes move. Nor do they where
    // the tensor leaves later, with those of other microbatches.
    spec::GpuLoad exchange = alone[use];
    if (action.sent == Seconds()) {
      exchange.scale_up_bytes = exchange.scale_out_bytes = Bytes();
      exchange.communicating_scale_out = Seconds();
    }
    exchange.communicating = action.sent;
    if (exchange.scale_out_bytes > Bytes()) exchange.communicating_scale_out = action.sent;
    exchange.duration = model.job.stack.microbatch_gap;
    // Where sends overlap, the next phase runs meanwhile and already contains the time.
    if (model.wiring().mode() == SendMode::blocking) exchange.duration += action.sent;
    loads[use] += exchange;
  }
  return loads;
}

void update_group(const StepModel& model, const StepTimeline& step, size_t pipeline, size_t stage,
                  bool rescheduled, GroupStep& group) {
  // Gaps and sends are the costly part (a walk over all actions) and depend on the schedule alone;
  // the rest depends on the length of the step, which changes more often.
  if (rescheduled) {
    const StageTimeline& timeline = step.pipelines[pipeline][stage];
    group.between = exchanges(model, timeline, pipeline, stage);
    group.with_kernel_between = kernels_between(model, stage, timeline, group.between);
  }
  group.outside = load_outside_phases(model, step, pipeline, stage);
  group.in_phases = Seconds();
  group.step_time = step.step_time;
  group.with_kernel = group.with_kernel_between + kernel_time(group.outside);
  for (size_t u = 0; u < model.uses[stage].size(); ++u)
    group.in_phases +=
        as_real(model.uses[stage][u].count) * step.phase_durations[pipeline][stage][u] +
        group.between[u].duration;
}

/// Whether a device's phases take as long as its lockstep group's, or as they would alone.
enum class Lockstep { of_group, alone };

/// Phases at their clocks, and what lies between them. Lockstep waits, gaps and sends are shorter
/// than the governor's window: the clock stays.
DeviceStep account_phases(StepModel& model, const std::vector<DevicePhase>& phases,
                          const StepTimeline& step, const GroupStep& group_step, size_t device,
                          Lockstep waits) {
  const auto [pipeline, stage] = model.place_of(device);
  const LockstepGroup& group = model.group_of(device);
  const power::BoardFactors& board = model.hardware.boards[device];
  DeviceStep sum;
  sum.scale_up_bytes = group_step.outside.scale_up_bytes;
  sum.scale_out_bytes = group_step.outside.scale_out_bytes;
  for (size_t u = 0; u < model.uses[stage].size(); ++u) {
    const PhaseUse& use = model.uses[stage][u];
    const DevicePhase& phase = phases[u];
    const spec::GpuLoad& between = group_step.between[u];
    const double count = as_real(use.count);
    const Seconds lockstep =
        waits == Lockstep::alone
            ? Seconds()
            : std::max(Seconds(), step.phase_durations[pipeline][stage][u] - phase.duration);
    for (const auto& [index, share] : clocks_of(phase)) {
      if (share == 0) continue;
      spec::GpuLoad lasting = model.table(group, use).at(index, group.host_factor).load;
      sum.with_kernel += share * count * std::min(lasting.duration, kernel_time(lasting));
      lasting.duration += lockstep;
      lasting.waiting += lockstep;
      if (model.has_power()) {
        const power::ClockPoint& clock = model.clocks()[as_size(index)];
        const Celsius reference = model.power().reference_temperature;
        sum.phases_at_reference +=
            share * count * power::energy_of(model.power(), lasting, clock, reference, board);
        sum.phases_at_reference +=
            // No count here: `between` already holds the exchanges of all repetitions.
            share * power::energy_of(model.power(), between, clock, reference, board);
      }
      sum.scale_up_bytes += share * count * lasting.scale_up_bytes;
      sum.scale_out_bytes += share * count * lasting.scale_out_bytes;
    }
    sum.scale_up_bytes += between.scale_up_bytes;
    sum.scale_out_bytes += between.scale_out_bytes;
    const Seconds at_this_clock = count * (phase.duration + lockstep) + between.duration;
    sum.in_phases += at_this_clock;
    sum.alone += count * phase.duration;
    sum.clock_seconds += model.clock_ratio(phase.steps_down()) * (at_this_clock / unit::s);
    if (phase.reason == ClockEventReason::software_power_cap)
      sum.throttled_power += at_this_clock;
    else if (clock::is_throttled(phase.reason))
      sum.throttled_thermal += at_this_clock;
  }
  return sum;
}

/// What is left of the step: it waits, at the highest clock that is allowed. A lock and a ceiling
/// of heat hold there too.
void account_rest(const StepModel& model, const GroupStep& group, size_t device,
                  double heat_ceiling, Seconds step_time, DeviceStep& sum) {
  if (!model.has_power()) return;
  spec::GpuLoad rest = group.outside;
  sum.duration = std::max(step_time, sum.in_phases);
  rest.duration = sum.duration - sum.in_phases;
  // The group's waiting was taken from the schedule. A longer step adds to it, and phases that take
  // longer than the group's take from it; without this the load would wait for longer than it
  // lasts.
  rest.waiting = std::max(Seconds(), rest.waiting + (sum.duration - group.step_time) -
                                         (sum.in_phases - group.in_phases));
  const int64_t locked = model.conditions().locked_steps[device];
  const double resting_ratio = model.resting_clock_ratio(device, heat_ceiling);
  // A ceiling of heat may lie between two clocks and has its own point; locks are clocks of the
  // table.
  const power::ClockPoint clock = heat_ceiling > as_real(locked)
                                      ? power::clock_point(model.power(), resting_ratio)
                                      : model.clocks()[as_size(locked)];
  sum.at_reference = sum.phases_at_reference;
  sum.at_reference +=
      power::energy_of(model.power(), rest, clock, model.power().reference_temperature,
                       model.hardware.boards[device]);
  sum.mean_clock_ratio =
      (sum.clock_seconds + resting_ratio * (rest.duration / unit::s)) / (sum.duration / unit::s);
}

}  // namespace

Seconds receive_gap(const StepModel& model, size_t stage, const workload::Action& action) {
  const int64_t stages = model.graph.stages;
  const int64_t place = action.chunk * stages + static_cast<int64_t>(stage);
  const bool forward = action.kind == workload::ActionKind::forward;
  const bool receives = forward ? place > 0 : place + 1 < stages * model.graph.virtual_stages;
  return receives ? model.job.stack.microbatch_gap : Seconds();
}

double share_with_kernel(const spec::GpuLoad& load, Seconds time) {
  return time > Seconds() ? std::min(1.0, kernel_time(load) / time) : 0;
}

double utilization_outside(const DeviceStep& device, const GroupStep& group) {
  const Seconds open = device.duration - device.alone;
  Seconds waits_for_group = device.in_phases - device.alone;
  for (const spec::GpuLoad& between : group.between)
    waits_for_group -= between.duration;
  return open > Seconds() ? std::min(1.0, (group.with_kernel + waits_for_group) / open) : 0;
}

double mean_utilization(const DeviceStep& device, const GroupStep& group) {
  const Seconds open = device.duration - device.alone;
  return (device.with_kernel + utilization_outside(device, group) * open) / device.duration;
}

AccountedStep account_step(StepModel& model, const ClockState& clocks, const StepTimeline& step) {
  const size_t pipelines = model.pipelines.size();
  AccountedStep accounted;
  accounted.devices.resize(model.num_devices());
  accounted.groups.resize(pipelines, std::vector<GroupStep>(model.uses.size()));
  update_account(model, clocks, step,
                 {.pipelines = std::vector<char>(pipelines, 1),
                  .devices = std::vector<char>(model.num_devices(), 1)},
                 step.step_time, accounted);
  return accounted;
}

void update_account(StepModel& model, const ClockState& clocks, const StepTimeline& step,
                    const Changed& changed, Seconds step_time, AccountedStep& accounted) {
  parallel_for(model.pipelines.size(), model.threads(), [&](size_t p) {
    const bool rescheduled = changed.pipelines[p] != 0;
    for (const LockstepGroup& group : model.pipelines[p].groups) {
      const size_t stage = as_size(group.stage);
      GroupStep& of_group = accounted.groups[p][stage];
      update_group(model, step, p, stage, rescheduled, of_group);
      for (const int64_t device : group.devices) {
        const size_t d = as_size(device);
        DeviceStep& of = accounted.devices[d];
        // The phases' energy stays valid for devices that neither changed clock nor pipeline; the
        // rest is cheap and always computed, because it depends on step_time.
        if (rescheduled || changed.devices[d] != 0)
          of = account_phases(model, clocks.devices[d], step, of_group, d, Lockstep::of_group);
        account_rest(model, of_group, d, clocks.heat_ceiling[d], step_time, of);
      }
    }
  });
}

void set_dies(const StepModel& model, std::span<const Celsius> die,
              std::vector<DeviceStep>& devices) {
  if (!model.has_power()) return;
  for (size_t d = 0; d < devices.size(); ++d) {
    DeviceStep& device = devices[d];
    device.ledger = power::at_die(model.power(), device.at_reference, device.duration,
                                  power::leakage_growth(model.power(), die[d]));
    device.mean_power = device.ledger.total() / device.duration;
  }
}

Watts power_under_ceiling(StepModel& model, const ClockState& clocks, const StepTimeline& step,
                          const AccountedStep& accounted, const Ceiling& ceiling) {
  const auto& [device, heat_ceiling, length, die] = ceiling;
  const auto [pipeline, stage] = model.place_of(device);
  const GroupStep& group = accounted.groups[pipeline][stage];
  const std::vector<DevicePhase> phases = choose_phases(
      model, {device, die, heat_ceiling, Hysteresis::only_down}, &clocks.devices[device]);
  // Here the device may be the slowest of its group, so the group's duration is no bound. It takes
  // its own time, and what is left to `length` is waiting.
  DeviceStep sum = account_phases(model, phases, step, group, device, Lockstep::alone);
  const Seconds own_length = group.step_time + (sum.in_phases - group.in_phases);
  account_rest(model, group, device, heat_ceiling, std::max(length, own_length), sum);
  const power::EnergyLedger ledger = power::at_die(model.power(), sum.at_reference, sum.duration,
                                                   power::leakage_growth(model.power(), die));
  return ledger.total() / sum.duration;
}

}  // namespace triplepoint::sim
