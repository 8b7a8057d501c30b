// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/peaks.h"

// The highest power of each device, as a sensor shows it and of single kernels.
//
// Every device has its own board factors, and with thousands of devices times hundreds of kernels
// the maximum over all pairs would dominate a run. Two things make it cheap: windows belong to
// phases, which devices share, and loads that cannot be the highest on any board are dropped once
// per phase.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "triplepoint/base/parallel.h"

#include "triplepoint/power/sensor.h"
#include "triplepoint/sim/phase_windows.h"

namespace triplepoint::sim {
namespace {

/// A profiler records one step; `triplepoint record` measures ten unless told otherwise.
double measured_steps(const spec::Stack& stack) {
  return stack.profiled ? 1 : 10;
}

/// One phase at the highest clock, as windows of the sensor see it.
struct SeenPhase {
  spec::GpuLoad mean;                    // of the phase, or of a window if that is longer
  Row opening;                           // the first windows, in equal parts
  std::vector<spec::GpuLoad> hungriest;  // the windows with the most energy on some board
  Seconds length;
};
// A burst is over within some time constants of the governor, about one window each.
constexpr int opening_windows = 4, parts_of_window = 8;

/// Cuts the first windows of a row into equal parts.
Row opening_of(const Row& row, Seconds window) {
  const Seconds part = window / parts_of_window, length = length_of(row);
  Row opening;
  for (int i = 0; i < opening_windows * parts_of_window && (i + 1) * part <= length; ++i)
    opening.push_back(part_of(row, i * part, part));
  return opening;
}

spec::GpuLoad waiting_for(Seconds time) {
  spec::GpuLoad load;
  load.duration = load.waiting = time;
  return load;
}

/// What a stage does once a step, one load for each op, at the highest clock.
Row row_of(const EpilogueEstimate& end) {
  Row row;
  for (const auto* ops : {&end.gradient_sync, &end.gradient_norm, &end.optimizer})
    for (const OpEstimate& estimate : *ops) {
      spec::GpuLoad load;
      load.duration = estimate.at(1);
      if (load.duration <= Seconds()) continue;
      add_work(load, estimate);
      add_time(load, estimate, load.duration);
      row.push_back(load);
    }
  return row;
}

/// Time between the end of the step's work, or of the action before, and an action.
Seconds rest_before(const StageTimeline& timeline, size_t action, Seconds between_steps) {
  const ActionTimes& now = timeline.actions[action];
  if (action == 0) return now.begin + between_steps;
  return std::max(Seconds(), now.begin - timeline.actions[action - 1].end);
}

/// Rests by length, each class twice as long as the one before; shorter ones leave nothing to burst
/// with.
constexpr size_t rest_classes = 7;
using RestCounts = std::array<double, rest_classes>;

Seconds rest_of_class(size_t rest, Seconds time_constant) {
  return std::exp2(static_cast<double>(rest) - 3) * time_constant;
}

std::vector<RestCounts> count_rests(const StepModel& model, size_t stage,
                                    const StageTimeline& timeline, Seconds between_steps) {
  std::vector<RestCounts> counts(model.uses[stage].size(), RestCounts{});
  const Seconds time_constant = model.job.cluster.gpu.governor->power_time_constant;
  for (size_t i = 0; i < timeline.actions.size(); ++i) {
    const Seconds rest = rest_before(timeline, i, between_steps);
    size_t longest = rest_classes;
    while (longest > 0 && rest_of_class(longest - 1, time_constant) > rest)
      --longest;
    if (longest > 0) ++counts[model.use_of(stage, timeline.actions[i].action)][longest - 1];
  }
  return counts;
}

/// What the sensors of several devices may show above the median of each.
struct SeenTogether {
  Watts highest_median;
  std::vector<power::BurstReadings> bursts;

  void add(Watts median, const std::vector<power::BurstReadings>& readings) {
    if (median > highest_median) {
      highest_median = median;
      for (power::BurstReadings& burst : bursts)
        burst.forget_below(median);
      std::erase_if(bursts, [&](const auto& burst) { return burst.highest() <= median; });
    }
    for (const power::BurstReadings& burst : readings) {
      if (burst.highest() <= highest_median) continue;
      bursts.push_back(burst);
      bursts.back().forget_below(highest_median);
    }
  }
};

/// Finds the peaks of all devices of a model.
class Peaks {
 public:
  Peaks(StepModel& model, const CoupledStep& step)
      : model_(model),
        step_(step),
        power_(model.power()),
        governor_(*model.job.cluster.gpu.governor),
        sensor_(model.job.cluster.gpu.sensor),
        steps_(measured_steps(model.job.stack)),
        range_(range_of(model.hardware)) {
    // A sensor without coefficients reads every millisecond.
    constexpr spec::SensorCoefficients prompt{.power_window = 1 * unit::ms,
                                              .power_period = 1 * unit::ms};
    if (sensor_.power_period <= Seconds() || sensor_.power_window <= Seconds()) sensor_ = prompt;
    window_ = std::min(sensor_.power_window, sensor_.power_period);
    see_phases();
  }

  Watts add(std::vector<DeviceStep>& devices) const {
    std::vector<SeenTogether> seen(model_.pipelines.size());
    parallel_for(model_.pipelines.size(), model_.threads(), [&](size_t p) {
      for (const LockstepGroup& group : model_.pipelines[p].groups) {
        const size_t stage = static_cast<size_t>(group.stage);
        const std::vector<RestCounts> rests = count_rests(
            model_, stage, step_.timeline.pipelines[p][stage],
            step_.timeline.step_time - step_.timeline.epilogues[p][stage].optimizer_end);
        std::optional<int64_t> index;  // members mostly have one
        std::vector<SeenUse> uses;
        for (const int64_t device : group.devices) {
          const auto d = static_cast<size_t>(device);
          if (index != highest_index(d))
            uses = seen_uses(group, *(index = highest_index(d)), rests);
          const std::vector<power::BurstReadings> bursts =
              add_device({stage, d, *index}, uses, devices[d]);
          seen[p].add(devices[d].sensor_peak, bursts);
        }
      }
    });
    SeenTogether all;
    for (const SeenTogether& pipeline : seen)
      all.add(pipeline.highest_median, pipeline.bursts);
    return power::highest_reading(sensor_, all.bursts, all.highest_median);
  }

 private:
  /// Stage, use, link shares, host factor (0: it does not matter), clock index.
  using PhaseKey = std::tuple<size_t, size_t, size_t, double, int64_t>;

  /// A use of the devices of one group, and how often it follows which rest.
  struct SeenUse {
    const SeenPhase* phase;
    const std::vector<spec::GpuLoad>* kernels;
    const RestCounts* rests;
  };
  std::vector<SeenUse> seen_uses(const LockstepGroup& group, int64_t index,
                                 std::span<const RestCounts> rests) const {
    std::vector<SeenUse> uses;
    for (size_t u = 0; u < rests.size(); ++u) {
      const PhaseUse& use = model_.uses[static_cast<size_t>(group.stage)][u];
      uses.push_back({&phases_.at(key_of(group, u, index)),
                      &kernels_.at({model_.table_index(group, use), index}), &rests[u]});
    }
    return uses;
  }

  /// Of the highest clock that a device may have: an operator's lock and heat hold it down.
  int64_t highest_index(size_t device) const {
    const auto heat = static_cast<int64_t>(std::floor(step_.clocks.heat_ceiling[device]));
    return std::max(model_.conditions().locked_steps[device], heat);
  }

  /// Windows of a phase that is longer than a window do not depend on hosts that are faster than
  /// its kernels.
  PhaseKey key_of(const LockstepGroup& group, size_t use, int64_t index) const {
    const auto stage = static_cast<size_t>(group.stage);
    PhaseTable& table = model_.table(group, model_.uses[stage][use]);
    const bool matters = table.waits_for_host(index, group.host_factor) ||
                         table.at(index, group.host_factor).duration < window_;
    return {stage, use, group.links, matters ? group.host_factor : 0, index};
  }

  void see_phases() {
    for (size_t stage = 0; stage < model_.uses.size(); ++stage)
      endings_.push_back(row_of(model_.epilogue_of(stage)));
    for (size_t p = 0; p < model_.pipelines.size(); ++p)
      for (const LockstepGroup& group : model_.pipelines[p].groups) {
        std::optional<int64_t> seen;  // members mostly have one
        for (const int64_t device : group.devices) {
          const int64_t index = highest_index(static_cast<size_t>(device));
          if (seen == index) continue;
          seen = index;
          for (size_t u = 0; u < model_.uses[static_cast<size_t>(group.stage)].size(); ++u)
            if (!phases_.contains(key_of(group, u, index))) see_phase(p, group, u, index);
        }
      }
  }

  void see_phase(size_t pipeline, const LockstepGroup& group, size_t u, int64_t index) {
    const PhaseUse& use = model_.uses[static_cast<size_t>(group.stage)][u];
    PhaseTable& table = model_.table(group, use);
    const PhasePoint whole = table.at(index, group.host_factor);
    const bool fills_window = whole.duration >= window_;
    const Row row = fills_window
                        ? row_of(table, index, group.host_factor, opening_windows * window_)
                        : actions_from(pipeline, group, u, index);
    phases_.emplace(
        key_of(group, u, index),
        SeenPhase{.mean = fills_window ? whole.load : part_of(row, Seconds(), window_),
                  .opening = opening_of(row, window_),
                  .hungriest = hungriest_windows(power_, row, range_, table.ratio(index), window_),
                  .length = fills_window ? whole.duration : window_});
    const std::pair kernels(model_.table_index(group, use), index);
    if (!kernels_.contains(kernels))
      kernels_.emplace(kernels, hungriest_kernels(power_, table, range_, index));
  }

  /// Phases shorter than the window, with the waits between them, from the first of this use on. A
  /// window that the step's rest does not fill goes on in the next steps.
  Row actions_from(size_t pipeline, const LockstepGroup& group, size_t u, int64_t index) const {
    constexpr size_t most_loads = 256;
    const size_t stage = static_cast<size_t>(group.stage);
    const StageTimeline& timeline = step_.timeline.pipelines[pipeline][stage];
    const auto use_of = [&](size_t i) { return model_.use_of(stage, timeline.actions[i].action); };
    Row row;
    const auto add_action = [&](size_t i) {
      const Seconds rest = rest_before(timeline, i, Seconds());
      if (!row.empty() && rest > Seconds()) row.push_back(waiting_for(rest));
      const PhaseUse& use = model_.uses[stage][use_of(i)];
      const PhasePoint phase = model_.table(group, use).at(index, group.host_factor);
      if (phase.duration > Seconds()) row.push_back(phase.load);
    };
    size_t i = 0;
    while (i < timeline.actions.size() && use_of(i) != u)
      ++i;
    for (; i < timeline.actions.size() && row.size() < most_loads; ++i)
      add_action(i);
    if (row.empty()) return {waiting_for(window_)};
    const Row& ending = endings_[stage];
    const Seconds rest = step_.timeline.step_time - timeline.actions.back().end - length_of(ending);
    while (length_of(row) < window_) {
      row.insert(row.end(), ending.begin(), ending.end());
      if (rest > Seconds()) row.push_back(waiting_for(rest));
      for (i = 0; i < timeline.actions.size(); ++i)
        add_action(i);
    }
    return row;
  }

  struct DeviceAtClock {
    size_t stage, device;
    int64_t index;
  };
  /// Returns what its sensor sees of bursts.
  std::vector<power::BurstReadings> add_device(const DeviceAtClock& at,
                                               std::span<const SeenUse> uses,
                                               DeviceStep& device) const {
    const auto& [stage, d, index] = at;
    const auto power_of = [&](const spec::GpuLoad& load) {
      return power::gpu_power(power_, load, model_.clocks()[static_cast<size_t>(at.index)],
                              step_.dies[at.device], model_.hardware.boards[at.device]);
    };
    Watts lasting = device.mean_power;  // of windows over a step, one draws no less
    const Watts waiting = power_of(waiting_for(1 * unit::s));
    const Watts cap = clock::power_cap(governor_, model_.conditions().power_limit[d]);
    std::vector<power::BurstReadings> bursts;
    for (size_t u = 0; u < uses.size(); ++u) {
      const SeenPhase& phase = *uses[u].phase;
      for (const spec::GpuLoad& kernel : *uses[u].kernels)
        device.instant_peak = std::max(device.instant_peak, power_of(kernel));
      const Watts mean = power_of(phase.mean), steady = step_.clocks.devices[d][u].power;
      lasting = std::max(lasting, std::min(mean, steady));
      if (mean <= cap) {
        for (const spec::GpuLoad& load : phase.hungriest)
          lasting = std::max(lasting, within_cap(mean, power_of(load), cap));
        continue;
      }
      const std::vector<power::PowerPiece> pieces = powers_of(phase, power_of);
      for (size_t rest = 0; rest < rest_classes; ++rest)
        if (const double steps = (*uses[u].rests)[rest]; steps > 0)
          bursts.emplace_back(sensor_, burst_after(rest, waiting, cap, pieces, steps));
    }
    const Row& ending = endings_[stage];
    for (const spec::GpuLoad& load : ending)
      device.instant_peak = std::max(device.instant_peak, power_of(load));
    const power::Burst end = end_of_step(ending, power_of, cap);
    const auto draws_more = [&](const power::PowerPiece& piece) { return piece.power > lasting; };
    if (std::ranges::any_of(end.pieces, draws_more)) bursts.emplace_back(sensor_, end);
    device.sensor_peak = power::highest_reading(sensor_, bursts, lasting);
    return bursts;
  }

  /// What the sensor shows of a window that draws `power` within a phase that draws `mean`.
  Watts within_cap(Watts mean, Watts power, Watts cap) const {
    if (power <= cap) return power;
    const double free = clock::time_to_cap(governor_, mean, power, cap, window_) / window_;
    return free * power + (1 - free) * cap;
  }

  /// The update of the weights between waits, once a step.
  template <class PowerOf>
  power::Burst end_of_step(const Row& row, const PowerOf& power_of, Watts cap) const {
    const Watts waiting = std::min(cap, power_of(waiting_for(1 * unit::s)));
    power::Burst burst{.before = waiting, .pieces = {}, .after = waiting, .count = steps_};
    for (const spec::GpuLoad& load : row)
      burst.pieces.push_back({load.duration, std::min(cap, power_of(load))});
    return burst;
  }

  /// Its opening in parts, and the rest of it at its mean.
  template <class PowerOf>
  std::vector<power::PowerPiece> powers_of(const SeenPhase& phase, const PowerOf& power_of) const {
    std::vector<power::PowerPiece> pieces;
    Seconds left = phase.length;
    for (const spec::GpuLoad& load : phase.opening) {
      pieces.push_back({std::min(left, load.duration), power_of(load)});
      left -= pieces.back().duration;
    }
    if (left > Seconds()) pieces.push_back({left, power_of(phase.mean)});
    return pieces;
  }

  /// After a rest of this class: at full power until the governor has seen enough of it.
  power::Burst burst_after(size_t rest, Watts waiting, Watts cap,
                           std::vector<power::PowerPiece> pieces, double steps) const {
    const Seconds rested = rest_of_class(rest, governor_.power_time_constant);
    Watts level = clock::filtered_power(governor_, cap, waiting, rested);
    power::Burst burst{.before = waiting, .pieces = {}, .after = cap, .count = steps_ * steps};
    for (power::PowerPiece& piece : pieces) {
      const Seconds free = clock::time_to_cap(governor_, level, piece.power, cap, piece.duration);
      level = clock::filtered_power(governor_, level, piece.power, free);
      const bool held = free < piece.duration;
      piece.duration = free;
      burst.pieces.push_back(piece);
      if (held) break;
    }
    return burst;
  }

  StepModel& model_;
  const CoupledStep& step_;
  const spec::PowerCoefficients& power_;
  const spec::GovernorCoefficients& governor_;
  spec::SensorCoefficients sensor_;
  double steps_;
  BoardRange range_;
  Seconds window_;
  std::map<PhaseKey, SeenPhase> phases_;
  std::vector<Row> endings_;  // of each stage's steps
  std::map<std::pair<size_t, int64_t>, std::vector<spec::GpuLoad>> kernels_;  // [table, clock]
};

}  // namespace

Watts add_peaks(StepModel& model, const CoupledStep& step, std::vector<DeviceStep>& devices) {
  return model.has_power() ? Peaks(model, step).add(devices) : Watts();
}

}  // namespace triplepoint::sim
