// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/power_profile.h"

// One step of every device, averaged over equal bins.
//
// A phase is placed at the end of its action, because a device that is faster than its group has
// waited by then. Phases have their own mean power; everything else of the step (waiting, sends,
// gaps, the epilogue) shares one mean, chosen so that the bins hold the energy of the account.
// Peaks between phases are lower than real ones for that reason.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
namespace {

/// Adds value * overlap to every bin that [begin, end) touches.
class Bins {
 public:
  Bins(Seconds bin, size_t count) : bin_(bin), sums_(count, 0.0), covered_(count, 0.0) {}

  void add(Seconds begin, Seconds end, double value) {
    const double first = begin / bin_, last = end / bin_;
    const auto index = [&](double at) {
      return std::min(sums_.size() - 1, static_cast<size_t>(std::max(0.0, std::floor(at))));
    };
    for (size_t i = index(first); i <= index(last); ++i) {
      const double from = std::max(first, static_cast<double>(i));
      const double to = std::min(last, static_cast<double>(i) + 1);
      if (to <= from) continue;
      sums_[i] += (to - from) * value;
      covered_[i] += to - from;
    }
  }

  /// Bin means, with what was not covered at `rest`.
  std::vector<double> means(double rest) const {
    std::vector<double> means(sums_.size());
    for (size_t i = 0; i < means.size(); ++i)
      means[i] = sums_[i] + std::max(0.0, 1 - covered_[i]) * rest;
    return means;
  }

 private:
  Seconds bin_;
  std::vector<double> sums_, covered_;
};

struct DeviceBins {
  std::vector<Watts> power;
  std::vector<double> ratio, throttled, utilization;
};

/// Of each use of a device, of phases that are alone.
std::vector<double> utilization_of_phases(StepModel& model, const CoupledStep& step, size_t device,
                                          const LockstepGroup& group) {
  std::vector<double> shares;
  const std::vector<PhaseUse>& uses = model.uses[static_cast<size_t>(group.stage)];
  for (size_t u = 0; u < uses.size(); ++u) {
    const int64_t index = step.clocks.devices[device][u].clock_index;
    const PhasePoint phase = model.table(group, uses[u]).at(index, group.host_factor);
    shares.push_back(share_with_kernel(phase.load, phase.duration));
  }
  return shares;
}

/// One device and the actions it ran.
struct DeviceTimeline {
  size_t device, pipeline;
  const LockstepGroup& group;
  Profiled profiled;
};

DeviceBins profile_device(StepModel& model, const CoupledStep& step, const DeviceTimeline& of,
                          Seconds bin, size_t count) {
  const auto& [device, pipeline, group, profiled] = of;
  const auto stage = static_cast<size_t>(group.stage);
  const StageTimeline& timeline = step.timeline.pipelines[pipeline][stage];
  const size_t count_beside = profiled == Profiled::all ? count : 0;
  Bins power(bin, count), ratio(bin, count_beside), throttled(bin, count_beside),
      utilization(bin, count_beside);
  std::vector<double> in_use;
  if (profiled == Profiled::all) in_use = utilization_of_phases(model, step, device, group);
  Joules in_phases;
  Seconds covered;
  for (const ActionTimes& action : timeline.actions) {
    const size_t use = model.use_of(stage, action.action);
    const DevicePhase& phase = step.clocks.devices[device][use];
    const Seconds begin = action.end - phase.duration;
    power.add(begin, action.end, phase.power / unit::W);
    if (profiled == Profiled::all) {
      ratio.add(begin, action.end, model.clock_ratio(phase.steps_down()));
      throttled.add(begin, action.end, clock::is_throttled(phase.reason) ? 1 : 0);
      utilization.add(begin, action.end, in_use[use]);
    }
    in_phases += phase.power * phase.duration;
    covered += phase.duration;
  }
  const Joules total = step.accounted.devices[device].ledger.total();
  const Seconds open = step.timeline.step_time - covered;
  const Watts rest = open > Seconds() ? (total - in_phases) / open : Watts();
  DeviceBins bins{
      .power = {},
      .ratio = ratio.means(model.resting_clock_ratio(device, step.clocks.heat_ceiling[device])),
      .throttled = throttled.means(0),
      .utilization = utilization.means(utilization_outside(
          step.accounted.devices[device], step.accounted.groups[pipeline][stage]))};
  for (const double watts : power.means(rest / unit::W))
    bins.power.push_back(watts * unit::W);
  return bins;
}

}  // namespace

StepProfile profile_step(StepModel& model, const CoupledStep& step, int64_t bins,
                         Profiled profiled) {
  const size_t devices = step.accounted.devices.size();
  StepProfile profile{.bin = step.timeline.step_time / static_cast<double>(bins),
                      .power = std::vector<std::vector<Watts>>(devices),
                      .clock_ratio = std::vector<std::vector<double>>(devices),
                      .throttled = std::vector<std::vector<double>>(devices),
                      .utilization = std::vector<std::vector<double>>(devices)};
  for (size_t p = 0; p < model.pipelines.size(); ++p)
    for (const LockstepGroup& group : model.pipelines[p].groups)
      for (const int64_t device : group.devices) {
        const size_t d = static_cast<size_t>(device);
        DeviceBins filled = profile_device(model, step, {d, p, group, profiled}, profile.bin,
                                           static_cast<size_t>(bins));
        profile.power[d] = std::move(filled.power);
        profile.clock_ratio[d] = std::move(filled.ratio);
        profile.throttled[d] = std::move(filled.throttled);
        profile.utilization[d] = std::move(filled.utilization);
      }
  return profile;
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

/// Temperatures of one device in a pass of the periodic state. Their mean is the steady state of
/// the mean power; what one pass leaves of slower poles moves it by millikelvins, so that a peak
/// could come to lie below it.
struct Course {
  Celsius mean, highest = Celsius(-std::numeric_limits<double>::infinity());
  Kelvins off;  // sum of what the pass is above the mean
  std::vector<Celsius> values;

  void add(Celsius now, bool keep) {
    highest = std::max(highest, now);
    off += now - mean;
    if (keep) values.push_back(now);
  }

  /// Moves the pass to its mean.
  void centre(std::size_t bins) {
    off = off / static_cast<double>(bins);
    highest = highest - off;
    for (Celsius& one : values)
      one = one - off;
  }
};

std::vector<Course> courses(const std::vector<Celsius>& means) {
  std::vector<Course> all;
  for (const Celsius mean : means)
    all.push_back({.mean = mean, .off = {}, .values = {}});
  return all;
}

}  // namespace

Ripple ripple(ClusterHeat heat, const StepProfile& profile, bool keep_course,
              const std::optional<std::vector<Watts>>& memory_power) {
  heat.set_pace(ClusterHeat::Pace::own);
  const std::size_t bins = profile.power.front().size();
  std::vector<Course> dies = courses(heat.dies());
  std::vector<Course> memories;
  if (memory_power) memories = courses(heat.memories(*memory_power));
  const auto nodes = static_cast<std::size_t>(heat.num_nodes());
  const std::size_t per_node = profile.power.size() / nodes;
  std::vector<Watts> power(per_node);
  // The first pass carries the state from the mean of a step to the temperature at its begin; fast
  // poles, which make the ripple, are periodic after it. Slow ones hardly move within a step. Node
  // by node, because each has its own pace.
  for (std::size_t node = 0; node < nodes; ++node)
    for (std::size_t pass = 0; pass < 2; ++pass)
      for (std::size_t b = 0; b < bins; ++b) {
        const std::size_t first = node * per_node;
        for (std::size_t slot = 0; slot < per_node; ++slot)
          power[slot] = profile.power[first + slot][b];
        heat.advance(node, power, profile.bin);
        if (pass == 0) continue;
        for (std::size_t d = first; d < first + per_node; ++d) {
          dies[d].add(heat.die(d), keep_course);
          if (memory_power) memories[d].add(heat.memory(d, (*memory_power)[d]), keep_course);
        }
      }
  Ripple ripple;
  for (Course& die : dies) {
    die.centre(bins);
    ripple.die_peaks.push_back(die.highest);
    ripple.dies.push_back(std::move(die.values));
  }
  for (Course& memory : memories) {
    memory.centre(bins);
    ripple.memories.push_back(std::move(memory.values));
  }
  return ripple;
}

}  // namespace triplepoint::sim
