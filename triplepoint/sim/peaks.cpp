// SPDX-License-Identifier: Apache-2.0
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
#include "triplepoint/sim/peaks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
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
