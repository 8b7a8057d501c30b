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
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
namespace {

/// Adds value * overlap to every bin that [begin, end) touches.
class Bins {
 public:
  Bins(Seconds bin, size_t count) : bin_(bin), sums_(count, 0.0), covered_(count, 0.0) {}

  void add(Seconds begin, Seconds end, double value) {
    const auto index = [&](Seconds t) {
      return std::min(sums_.size() - 1, static_cast<size_t>(std::max(0.0, std::floor(t / bin_))));
    };
    for (size_t i = index(begin); i <= index(end); ++i) {
      const double from = std::max(begin / bin_, static_cast<double>(i));
      const double to = std::min(end / bin_, static_cast<double>(i) + 1);
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
  std::vector<double> ratio, throttled;
};

/// One device and the actions it ran.
struct DeviceTimeline {
  size_t device, stage;
  const StageTimeline& timeline;
};

DeviceBins profile_device(const StepModel& model, const CoupledStep& step, const DeviceTimeline& of,
                          Seconds bin, size_t count) {
  const auto& [device, stage, timeline] = of;
  Bins power(bin, count), ratio(bin, count), throttled(bin, count);
  Joules in_phases;
  Seconds covered;
  for (const ActionTimes& action : timeline.actions) {
    const DevicePhase& phase = step.clocks.devices[device][model.use_of(stage, action.action)];
    const Seconds begin = action.end - phase.duration;
    power.add(begin, action.end, phase.power / unit::W);
    ratio.add(begin, action.end, model.clock_ratio(phase.steps_down()));
    throttled.add(begin, action.end, clock::is_throttled(phase.reason) ? 1 : 0);
    in_phases += phase.power * phase.duration;
    covered += phase.duration;
  }
  const Joules total = step.accounted.devices[device].ledger.total();
  const Seconds open = step.timeline.step_time - covered;
  const Watts rest = open > Seconds() ? (total - in_phases) / open : Watts();
  DeviceBins bins{
      .power = {},
      .ratio = ratio.means(model.resting_clock_ratio(device, step.clocks.heat_ceiling[device])),
      .throttled = throttled.means(0)};
  for (const double watts : power.means(rest / unit::W))
    bins.power.push_back(watts * unit::W);
  return bins;
}

}  // namespace

StepProfile profile_step(StepModel& model, const CoupledStep& step, int64_t bins) {
  const size_t devices = step.accounted.devices.size();
  StepProfile profile{.bin = step.timeline.step_time / static_cast<double>(bins),
                      .power = std::vector<std::vector<Watts>>(devices),
                      .clock_ratio = std::vector<std::vector<double>>(devices),
                      .throttled = std::vector<std::vector<double>>(devices)};
  for (size_t p = 0; p < model.pipelines.size(); ++p)
    for (const LockstepGroup& group : model.pipelines[p].groups)
      for (const int64_t device : group.devices) {
        const size_t d = static_cast<size_t>(device);
        const size_t stage = static_cast<size_t>(group.stage);
        DeviceBins filled =
            profile_device(model, step, {d, stage, step.timeline.pipelines[p][stage]}, profile.bin,
                           static_cast<size_t>(bins));
        profile.power[d] = std::move(filled.power);
        profile.clock_ratio[d] = std::move(filled.ratio);
        profile.throttled[d] = std::move(filled.throttled);
      }
  return profile;
}

std::vector<std::vector<Celsius>> ripple(ClusterHeat heat, const StepProfile& profile) {
  heat.set_pace(ClusterHeat::Pace::own);
  const size_t bins = profile.power.front().size();
  std::vector<std::vector<Celsius>> dies(profile.power.size());
  std::vector<Watts> power(profile.power.size());
  // The first pass carries the state from the mean of a step to the temperature at its begin; fast
  // poles, which make the ripple, are periodic after it. Slow ones hardly move within a step.
  for (int pass = 0; pass < 2; ++pass)
    for (size_t b = 0; b < bins; ++b) {
      for (size_t d = 0; d < power.size(); ++d)
        power[d] = profile.power[d][b];
      heat.advance(power, profile.bin);
      if (pass == 0) continue;
      const std::vector<Celsius> now = heat.dies();
      for (size_t d = 0; d < now.size(); ++d)
        dies[d].push_back(now[d]);
    }
  return dies;
}

// The highest power of each device, as a sensor shows it and of single kernels.
//
// Peaks occur where a phase starts at full clock after a wait: the governor reacts over its window,
// and until then the mean of the phase may exceed the cap. So all loads here are taken at clock
// index 0 and at the die temperature of the step.
//
// Every device has its own board factors, and with thousands of devices times hundreds of kernels
// the maximum over all pairs would dominate a run. Two things make it cheap: loads belong to
// tables, which devices share, and loads that cannot be the highest on any board are dropped once
// per table.

namespace {

/// The dynamic factors that boards have at all.
struct BoardRange {
  double least = 1, most = 1;
};

BoardRange range_of(const HardwareVariation& hardware) {
  BoardRange range{hardware.boards.front().dynamic_energy, hardware.boards.front().dynamic_energy};
  for (const power::BoardFactors& board : hardware.boards) {
    range.least = std::min(range.least, board.dynamic_energy);
    range.most = std::max(range.most, board.dynamic_energy);
  }
  return range;
}

spec::GpuLoad kernel_load(const OpEstimate& estimate, double clock_ratio) {
  spec::GpuLoad load;
  add_work(load, estimate);
  add_time(load, estimate, estimate.at(clock_ratio));
  load.duration = estimate.at(clock_ratio);
  return load;
}

/// Kernels and layers of a phase of which one may be the hungriest on some board.
///
/// At one clock P = x + d y + leakage, the last alike for all of them, so a load below another on
/// the boards with the least and the most d is below it on every board.
std::vector<spec::GpuLoad> hungriest(const spec::PowerCoefficients& power, PhaseTable& table,
                                     const BoardRange& range, int64_t clock_index) {
  // A group's mean and each of its kernels: with two streams the mean over overlapping kernels and
  // collectives can exceed each of them alone.
  std::vector<spec::GpuLoad> all;
  const double clock_ratio = table.ratio(clock_index);
  const std::vector<GroupPoint>& points = table.groups_at(clock_index);
  for (size_t g = 0; g < points.size(); ++g) {
    if (points[g].load.duration > Seconds()) all.push_back(points[g].load);
    for (const OpEstimate& estimate : table.groups()[g].ops)
      if (estimate.at(clock_ratio) > Seconds()) all.push_back(kernel_load(estimate, clock_ratio));
  }
  // Leakage adds the same to every load of a device, so a typical die at the reference temperature
  // gives the right order.
  const auto power_on = [&](const spec::GpuLoad& load, double dynamic) {
    return power::gpu_power(power, load, clock_ratio, power.reference_temperature,
                            {.dynamic_energy = dynamic, .leakage = 1});
  };
  std::vector<spec::GpuLoad> kept;
  for (const spec::GpuLoad& load : all) {
    // Strictly below, with a margin: of equal loads all stay, and none is dropped by another that
    // is dropped by it.
    constexpr double margin = 1 - 1e-9;
    const bool beaten = std::ranges::any_of(all, [&](const spec::GpuLoad& other) {
      return power_on(load, range.least) < margin * power_on(other, range.least) &&
             power_on(load, range.most) < margin * power_on(other, range.most);
    });
    if (!beaten) kept.push_back(load);
  }
  return kept;
}

/// What a sensor may see of a phase. Its window holds a few layers, recomputed and differentiated
/// in turn, so layers count with the phase's mean; embedding and head stand alone and count if they
/// fill the window.
std::vector<spec::GpuLoad> seen_by_sensor(PhaseTable& table, int64_t clock_index,
                                          double host_factor, Seconds window) {
  // Kernels last microseconds and layers milliseconds, the window tens of milliseconds. A window
  // within a run of equal layers sees their mean, which is the phase's.
  std::vector<spec::GpuLoad> loads = {table.at(clock_index, host_factor).load};
  const std::vector<GroupPoint>& points = table.groups_at(clock_index);
  for (size_t g = 0; g < points.size(); ++g) {
    if (table.groups()[g].is_layer) continue;
    spec::GpuLoad load = points[g].load;
    load.duration = table.groups()[g].length(points[g], host_factor);
    if (static_cast<double>(table.groups()[g].repeat) * load.duration >= window)
      loads.push_back(load);
  }
  return loads;
}

Watts highest(const spec::PowerCoefficients& power, std::span<const spec::GpuLoad> loads,
              const power::ClockPoint& clock, Celsius die, const power::BoardFactors& board) {
  Watts peak;
  for (const spec::GpuLoad& load : loads)
    peak = std::max(peak, power::gpu_power(power, load, clock, die, board));
  return peak;
}

}  // namespace

void add_peaks(StepModel& model, std::span<const Celsius> die, std::vector<DeviceStep>& devices) {
  if (!model.has_power()) return;
  // Bursts run at the highest clock a device may have: full clock, or its lock. Few locks differ.
  const BoardRange range = range_of(model.hardware);
  const std::vector<int64_t>& locked = model.conditions().locked_steps;
  std::map<int64_t, std::vector<std::vector<spec::GpuLoad>>> kernels;  // [lock][table]
  for (const int64_t lock : std::set(locked.begin(), locked.end()))
    for (PhaseTable& table : model.tables())
      kernels[lock].push_back(hungriest(model.power(), table, range, lock));
  const Seconds window = model.job.cluster.gpu.sensor.power_window;
  parallel_for(model.pipelines.size(), model.threads(), [&](size_t p) {
    for (const LockstepGroup& group : model.pipelines[p].groups)
      for (const PhaseUse& use : model.uses[static_cast<size_t>(group.stage)]) {
        std::optional<int64_t> lock;
        std::vector<spec::GpuLoad> seen;
        for (const int64_t device : group.devices) {
          const size_t d = static_cast<size_t>(device);
          if (lock != locked[d])
            seen = seen_by_sensor(model.table(group, use), locked[d], group.host_factor, window);
          lock = locked[d];
          const std::vector<spec::GpuLoad>& hungry =
              kernels.at(*lock)[model.table_index(group, use)];
          const power::ClockPoint& highest_clock =
              model.clocks().applied[static_cast<size_t>(*lock)];
          const power::BoardFactors& board = model.hardware.boards[d];
          DeviceStep& of = devices[d];
          of.sensor_peak =
              std::max(of.sensor_peak, highest(model.power(), seen, highest_clock, die[d], board));
          of.instant_peak = std::max(of.instant_peak,
                                     highest(model.power(), hungry, highest_clock, die[d], board));
        }
      }
  });
}

}  // namespace triplepoint::sim
