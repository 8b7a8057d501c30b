// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_profile.h"

// One step of a device, averaged over equal bins.
//
// A phase is placed at the end of its action, because a device that is faster than its group has
// waited by then. Phases have their own mean power; everything else of the step (waiting, sends,
// gaps, the epilogue) shares one mean, chosen so that the bins hold the energy of the account.
// Peaks between phases are lower than real ones for that reason.

#include <algorithm>
#include <cmath>

namespace triplepoint::sim {
namespace {

void add(StepBin& bin, double share, const StepBin& other) {
  bin.power += share * other.power;
  bin.clock_ratio += share * other.clock_ratio;
  bin.throttled += share * other.throttled;
  bin.utilization += share * other.utilization;
}

/// Each use of a device, while it runs.
std::vector<StepBin> phase_bins(StepModel& model, const CoupledStep& step, size_t device) {
  const LockstepGroup& group = model.group_of(device);
  const std::vector<PhaseUse>& uses = model.uses[as_size(group.stage)];
  std::vector<StepBin> bins;
  for (size_t u = 0; u < uses.size(); ++u) {
    const DevicePhase& phase = step.clocks.devices[device][u];
    const PhasePoint alone = model.table(group, uses[u]).at(phase.clock_index, group.host_factor);
    bins.push_back({.power = phase.power,
                    .clock_ratio = model.clock_ratio(phase.steps_down()),
                    .throttled = clock::is_throttled(phase.reason) ? 1.0 : 0.0,
                    .utilization = share_with_kernel(alone.load, alone.duration)});
  }
  return bins;
}

}  // namespace

std::vector<StepBin> step_bins(StepModel& model, const CoupledStep& step, size_t device,
                               size_t count) {
  const auto [pipeline, stage] = model.place_of(device);
  const std::vector<StepBin> phases = phase_bins(model, step, device);
  const Seconds bin = step.timeline.step_time / as_real(count);
  std::vector<StepBin> bins(count);
  std::vector<double> covered(count);
  Joules in_phases;
  Seconds in_phase, clocked, throttled;
  const auto index = [&](double at) {
    return std::min(count - 1, as_size(std::max(0.0, std::floor(at))));
  };
  for (const ActionTimes& action : step.timeline.pipelines[pipeline][stage].actions) {
    const size_t use = model.use_of(stage, action.action);
    const Seconds duration = step.clocks.devices[device][use].duration;
    const double first = (action.end - duration) / bin, last = action.end / bin;
    for (size_t i = index(first); i <= index(last); ++i) {
      const double share = std::min(last, as_real(i) + 1) - std::max(first, as_real(i));
      if (share <= 0) continue;
      add(bins[i], share, phases[use]);
      covered[i] += share;
    }
    in_phases += phases[use].power * duration;
    in_phase += duration;
    clocked += phases[use].clock_ratio * duration;
    throttled += phases[use].throttled * duration;
  }
  const DeviceStep& accounted = step.accounted.devices[device];
  const Seconds open = step.timeline.step_time - in_phase;
  // What lies between phases keeps their clocks, and the means of the step are those accounted.
  const auto between = [&](Seconds accounted_time, Seconds of_phases) {
    return open > Seconds() ? std::clamp((accounted_time - of_phases) / open, 0.0, 1.0) : 0.0;
  };
  StepBin rest{
      .power = {},
      .clock_ratio = between(accounted.mean_clock_ratio * step.timeline.step_time, clocked),
      .throttled = between(accounted.throttled_power + accounted.throttled_thermal, throttled),
      .utilization = utilization_outside(accounted, step.accounted.groups[pipeline][stage])};
  if (open > Seconds()) rest.power = (accounted.ledger.total() - in_phases) / open;
  for (size_t i = 0; i < count; ++i)
    add(bins[i], std::max(0.0, 1 - covered[i]), rest);
  return bins;
}

std::optional<std::vector<Watts>> memory_powers(const StepModel& model, const CoupledStep& step) {
  const spec::Gpu& gpu = model.job.cluster.gpu;
  if (!gpu.thermal || !gpu.thermal->memory_idle) return std::nullopt;
  const spec::PowerCoefficients& power = model.power();
  std::vector<Watts> powers;
  for (const DeviceStep& device : step.accounted.devices) {
    const power::ClockPoint clock = power::clock_point(power, device.mean_clock_ratio);
    // The ledger has the bytes with their way across the chip, which follows the SM clock.
    const double across = power.hbm_clocked_share * clock.ratio * clock.voltage_squared;
    const double in_memory = 1 - power.hbm_clocked_share;
    const Watts traffic = device.ledger.memory / step.timeline.step_time;
    powers.push_back(*gpu.thermal->memory_idle + in_memory / (in_memory + across) * traffic);
  }
  return powers;
}

namespace {

/// The mean of a pass is the steady state of the mean power; what one pass leaves of slower poles
/// moves it by millikelvins, so that a peak could come to lie below it.
void centre(std::vector<Celsius>& pass, Celsius mean) {
  Kelvins off;
  for (const Celsius one : pass)
    off += one - mean;
  off = off / as_real(pass.size());
  for (Celsius& one : pass)
    one = one - off;
}

}  // namespace

Ripple ripple(ClusterHeat& heat, size_t node, std::span<const std::vector<StepBin>> devices,
              Seconds bin, std::span<const Watts> memory_power) {
  const size_t count = devices.size(), first = node * count;
  std::vector<Celsius> die_means, memory_means;
  for (size_t slot = 0; slot < count; ++slot) {
    die_means.push_back(heat.die(first + slot));
    if (!memory_power.empty())
      memory_means.push_back(heat.memory(first + slot, memory_power[slot]));
  }
  Ripple ripple{.dies = std::vector<std::vector<Celsius>>(count),
                .memories = std::vector<std::vector<Celsius>>(memory_power.size())};
  std::vector<Watts> power(count);
  // The first pass carries the state from the mean of a step to the temperature at its begin; fast
  // poles, which make the ripple, are periodic after it. Slow ones hardly move within a step.
  for (size_t pass = 0; pass < 2; ++pass)
    for (size_t b = 0; b < devices.front().size(); ++b) {
      for (size_t slot = 0; slot < count; ++slot)
        power[slot] = devices[slot][b].power;
      heat.advance(node, power, bin);
      if (pass == 0) continue;
      for (size_t slot = 0; slot < count; ++slot)
        ripple.dies[slot].push_back(heat.die(first + slot));
      for (size_t slot = 0; slot < memory_power.size(); ++slot)
        ripple.memories[slot].push_back(heat.memory(first + slot, memory_power[slot]));
    }
  for (size_t slot = 0; slot < count; ++slot)
    centre(ripple.dies[slot], die_means[slot]);
  for (size_t slot = 0; slot < memory_power.size(); ++slot)
    centre(ripple.memories[slot], memory_means[slot]);
  return ripple;
}

}  // namespace triplepoint::sim
