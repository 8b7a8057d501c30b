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

/// Everything outside the phases and their exchanges: waiting for data, the step's end.
spec::GpuLoad load_outside_phases(const StepModel& model, const PlayedStep& step, size_t pipeline,
                                  size_t stage) {
  const PlayedStage& played = step.pipelines[pipeline][stage];
  const StepEnd& at = step.ends[pipeline][stage];
  const PricedEnd& end = model.end_of(stage);
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

}  // namespace

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

DeviceStep StepModel::account_device(const ClockState& clocks, const PlayedStep& step,
                                     const TeamExchanges& exchanges, size_t device, Celsius die) {
  const size_t pipeline = exchanges.pipeline;
  const Team& team = exchanges.team;
  const std::vector<spec::GpuLoad>& between = exchanges.between;
  const size_t stage = static_cast<size_t>(team.stage);
  const power::BoardFactors& board = machine.boards[device];
  DeviceStep sum;
  Seconds in_phases;
  double clock_seconds = 0;
  for (size_t u = 0; u < uses[stage].size(); ++u) {
    const PhaseUse& use = uses[stage][u];
    const DevicePhase& phase = clocks.devices[device][u];
    const double count = static_cast<double>(use.count);
    const double ratio = clock_ratio(phase.clock_index);
    const PhasePoint point = table(team, use).at(phase.clock_index, team.host_factor);
    // Lockstep waits, gaps and sends are shorter than the governor's window: the clock stays.
    const Seconds lockstep = step.phase_durations[pipeline][stage][u] - phase.duration;
    spec::GpuLoad lasting = point.load;
    lasting.duration += lockstep;
    lasting.waiting += lockstep;
    const power::ClockPoint& clock = scale_.played[static_cast<size_t>(phase.clock_index)];
    sum.ledger += count * power::energy_of(power(), lasting, clock, die, board);
    sum.ledger += power::energy_of(power(), between[u], clock, die, board);
    sum.scale_up_bytes += count * point.load.scale_up_bytes + between[u].scale_up_bytes;
    sum.scale_out_bytes += count * point.load.scale_out_bytes + between[u].scale_out_bytes;
    const Seconds at_this_clock = count * lasting.duration + between[u].duration;
    in_phases += at_this_clock;
    clock_seconds += ratio * (at_this_clock / unit::s);
    if (phase.reason == ClockEventReason::software_power_cap)
      sum.throttled_power += at_this_clock;
    else if (clock::is_throttled(phase.reason))
      sum.throttled_thermal += at_this_clock;
  }
  spec::GpuLoad rest = load_outside_phases(*this, step, pipeline, stage);
  rest.duration = step.step_time - in_phases;
  // Waiting at the highest clock that is allowed: a lock holds there too (nvidia-smi -lgc).
  const double resting_ratio = clock_ratio(conditions_.locked_steps[device]);
  sum.ledger += power::energy_of(power(), rest, resting_ratio, die, board);
  sum.scale_up_bytes += rest.scale_up_bytes;
  sum.scale_out_bytes += rest.scale_out_bytes;
  sum.mean_power = sum.ledger.total() / step.step_time;
  sum.mean_clock_ratio =
      (clock_seconds + resting_ratio * (rest.duration / unit::s)) / (step.step_time / unit::s);
  return sum;
}

std::vector<DeviceStep> StepModel::account(const ClockState& clocks, const PlayedStep& step,
                                           std::span<const Celsius> die) {
  std::vector<DeviceStep> devices(die.size());
  parallel_for(pipelines.size(), threads_,
               [&](size_t p) { account_pipeline(p, clocks, step, die, devices); });
  return devices;
}

void StepModel::account_pipeline(size_t pipeline, const ClockState& clocks, const PlayedStep& step,
                                 std::span<const Celsius> die, std::vector<DeviceStep>& devices) {
  for (const Team& team : pipelines[pipeline].teams) {
    const size_t stage = static_cast<size_t>(team.stage);
    const TeamExchanges own{pipeline, team,
                            exchanges(step.pipelines[pipeline][stage], pipeline, stage)};
    for (const int64_t device : team.devices) {
      const size_t d = static_cast<size_t>(device);
      devices[d] = account_device(clocks, step, own, d, die[d]);
    }
  }
}

}  // namespace triplepoint::sim
