// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/record.h"

// The highest power of each device, as a sensor shows it and of single kernels.
//
// A device's power is its phases' traces at the highest clock (phase_trace.h), with rests between
// them, behind two filters: the governor, a first-order lag that lets power exceed the cap until it
// has seen enough of it, and the sensor's window. Traces belong to phases, which devices share; a
// device adds its board and its die. With thousands of devices times hundreds of kernels the
// maximum over all pairs would dominate a run, so each trace keeps only what is highest on some
// board.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "triplepoint/base/parallel.h"

#include "triplepoint/power/power_trace.h"
#include "triplepoint/sim/phase_trace.h"

namespace triplepoint::sim {
namespace {

using power::BoardPower;
using power::PowerPiece;
using power::PowerTrace;

/// A profiler records one step; `triplepoint record` measures ten unless told otherwise.
double measured_steps(const spec::Stack& stack) {
  return stack.profiled ? 1 : 10;
}

/// A sensor without coefficients reads every millisecond.
spec::SensorCoefficients sensor_of(const spec::Gpu& gpu) {
  if (gpu.sensor.power_period > Seconds() && gpu.sensor.power_window > Seconds()) return gpu.sensor;
  return {.power_window = 1 * unit::ms, .power_period = 1 * unit::ms};
}

/// One phase at the highest clock, as windows of the sensor see it.
struct PhasePower {
  BoardPower mean;     // of the phase, or of what a window sees of a shorter one
  PowerTrace opening;  // the first windows in equal parts, and the rest of the phase at its mean
  std::vector<BoardPower> windows, kernels;  // the highest
};

/// A burst is over within some time constants of the governor, about one window each.
PowerTrace opening_of(const PowerTrace& trace, Seconds window, Seconds length, BoardPower mean) {
  constexpr int parts_of_window = 8, parts = 4 * parts_of_window;
  const Seconds part = window / parts_of_window, known = std::min(length, power::length_of(trace));
  std::vector<Seconds> begins;
  for (int i = 0; i < parts && (i + 1) * part <= known; ++i)
    begins.push_back(i * part);
  PowerTrace opening;
  for (const BoardPower& power : power::window_means(trace, begins, part))
    opening.push_back({part, power});
  const Seconds left = length - as_real(begins.size()) * part;
  if (left > Seconds()) opening.push_back({left, mean});
  return opening;
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
  return std::exp2(as_real(rest) - 3) * time_constant;
}

/// Of several devices: the highest median, and readings above the median of each.
struct Readings {
  Watts highest_median;
  std::vector<PowerPiece> above;

  void add(Watts median, const std::vector<PowerPiece>& readings) {
    highest_median = std::max(highest_median, median);
    std::ranges::copy_if(readings, std::back_inserter(above),
                         [&](const PowerPiece& reading) { return reading.power > highest_median; });
  }
};

/// Members of a lockstep group that have the same highest clock, mostly all.
struct Members {
  size_t pipeline;
  const LockstepGroup& group;
  int64_t clock_index;
  std::vector<size_t> devices;
  std::vector<const PhasePower*> phases;  // [use]
};

class PeakFinder {
 public:
  PeakFinder(StepModel& model, const CoupledStep& step)
      : model_(model),
        step_(step),
        governor_(*model.job.cluster.gpu.governor),
        sensor_(sensor_of(model.job.cluster.gpu)),
        steps_(measured_steps(model.job.stack)),
        window_(power::window_of(sensor_)) {}

  PowerPeaks find() {
    PowerPeaks peaks{.sensor = std::vector<Watts>(model_.num_devices()),
                     .kernel = std::vector<Watts>(model_.num_devices())};
    const std::vector<Members> all = members();
    std::vector<Readings> readings(all.size());
    parallel_for(all.size(), model_.threads(),
                 [&](size_t i) { readings[i] = find_in(all[i], peaks); });
    Readings together;
    for (const Readings& some : readings)
      together.add(some.highest_median, some.above);
    peaks.highest = power::highest_reading(sensor_, together.above, together.highest_median);
    return peaks;
  }

 private:
  /// Of the highest clock that a device may have: an operator's lock and heat hold it down.
  int64_t highest_index(size_t device) const {
    const auto heat = static_cast<int64_t>(std::floor(step_.clocks.heat_ceiling[device]));
    return std::max(model_.conditions().locked_steps[device], heat);
  }
  const power::ClockPoint& clock_of(int64_t index) const { return model_.clocks()[as_size(index)]; }
  BoardPower power_of(const spec::GpuLoad& load, int64_t index) const {
    return power::board_power(model_.power(), load, clock_of(index));
  }
  BoardPower waiting_at(int64_t index) const {
    spec::GpuLoad load;
    load.duration = load.waiting = 1 * unit::s;
    return power_of(load, index);
  }

  std::vector<Members> members() {
    std::vector<Members> all;
    for (size_t p = 0; p < model_.pipelines.size(); ++p)
      for (const LockstepGroup& group : model_.pipelines[p].groups) {
        const size_t first = all.size();
        for (const int64_t device : group.devices) {
          const auto d = as_size(device);
          const int64_t index = highest_index(d);
          if (all.size() == first || all.back().clock_index != index)
            all.push_back({p, group, index, {}, phases_of(p, group, index)});
          all.back().devices.push_back(d);
        }
      }
    return all;
  }

  std::vector<const PhasePower*> phases_of(size_t pipeline, const LockstepGroup& group,
                                           int64_t index) {
    const auto stage = as_size(group.stage);
    std::vector<const PhasePower*> phases;
    for (size_t u = 0; u < model_.uses[stage].size(); ++u) {
      PhaseTable& table = model_.table(group, model_.uses[stage][u]);
      const PhasePoint whole = table.at(index, group.host_factor);
      // Traces of a phase that is longer than a window do not depend on hosts that are faster than
      // its kernels.
      const bool matters =
          table.waits_for_host(index, group.host_factor) || whole.duration < window_;
      const auto [found, is_new] =
          phases_.try_emplace({stage, u, group.links, matters ? group.host_factor : 0, index});
      if (is_new) found->second = phase_power(pipeline, group, u, index, whole);
      phases.push_back(&found->second);
    }
    return phases;
  }

  PhasePower phase_power(size_t pipeline, const LockstepGroup& group, size_t u, int64_t index,
                         const PhasePoint& whole) {
    const PowerTrace trace = trace_from(pipeline, group, u, index);
    constexpr std::array from_begin = {Seconds()};
    PhasePower phase;
    phase.mean = whole.duration >= window_
                     ? power_of(whole.load, index)
                     : power::window_means(trace, from_begin, window_).front();
    phase.opening = opening_of(trace, window_, std::max(window_, whole.duration), phase.mean);
    phase.windows = power::highest_windows(trace, window_);
    phase.kernels = highest_kernels(model_, {group, model_.uses[as_size(group.stage)][u], index});
    return phase;
  }

  /// A phase, and where it is shorter than a window what follows its first one: waits and other
  /// phases, into the next steps if need be.
  PowerTrace trace_from(size_t pipeline, const LockstepGroup& group, size_t u, int64_t index) {
    const auto stage = as_size(group.stage);
    const StageTimeline& timeline = step_.timeline.pipelines[pipeline][stage];
    const BoardPower waiting = waiting_at(index);
    PowerTrace trace;
    Seconds length;
    const auto add = [&](const PowerTrace& pieces) {
      trace.insert(trace.end(), pieces.begin(), pieces.end());
      length += power::length_of(pieces);
    };
    const auto wait = [&](Seconds duration) {
      if (duration > Seconds()) add({{duration, waiting}});
    };
    const auto use_of = [&](size_t i) { return model_.use_of(stage, timeline.actions[i].action); };
    const auto add_action = [&](size_t i) {
      add(phase_trace(model_, {group, model_.uses[stage][use_of(i)], index}, 4 * window_));
    };
    size_t i = 0;
    while (i < timeline.actions.size() && use_of(i) != u)
      ++i;
    if (i == timeline.actions.size()) return {{window_, waiting}};
    add_action(i);
    while (length < window_) {
      if (++i == timeline.actions.size()) {
        const PowerTrace ending = end_of_step(stage, index);
        add(ending);
        wait(step_.timeline.step_time - timeline.actions.back().end - power::length_of(ending));
        i = 0;
      }
      wait(rest_before(timeline, i, Seconds()));
      add_action(i);
    }
    return trace;
  }

  /// What a stage does once a step, at full clock, op by op.
  PowerTrace end_of_step(size_t stage, int64_t index) const {
    PowerTrace trace;
    const EpilogueEstimate& end = model_.epilogue_of(stage);
    for (const auto* ops : {&end.gradient_sync, &end.gradient_norm, &end.optimizer})
      for (const OpEstimate& estimate : *ops)
        if (const Seconds time = estimate.at(1); time > Seconds())
          trace.push_back({time, power_of(load_of(estimate, time), index)});
    return trace;
  }

  /// [use]: how often it follows which rest.
  std::vector<RestCounts> count_rests(const Members& of) const {
    const auto stage = as_size(of.group.stage);
    const StageTimeline& timeline = step_.timeline.pipelines[of.pipeline][stage];
    const Seconds between_steps =
        step_.timeline.step_time - step_.timeline.epilogues[of.pipeline][stage].optimizer_end;
    std::vector<RestCounts> counts(of.phases.size(), RestCounts{});
    for (size_t i = 0; i < timeline.actions.size(); ++i) {
      const Seconds rest = rest_before(timeline, i, between_steps);
      size_t longest = rest_classes;
      while (longest > 0 && rest_of_class(longest - 1, governor_.power_time_constant) > rest)
        --longest;
      if (longest > 0) ++counts[model_.use_of(stage, timeline.actions[i].action)][longest - 1];
    }
    return counts;
  }

  Readings find_in(const Members& of, PowerPeaks& peaks) const {
    const std::vector<RestCounts> rests = count_rests(of);
    const PowerTrace ending = end_of_step(as_size(of.group.stage), of.clock_index);
    const BoardPower waits = waiting_at(of.clock_index);
    Readings all;
    for (const size_t d : of.devices) {
      const power::Board board = power::board_at(model_.power(), clock_of(of.clock_index),
                                                 step_.dies[d], model_.hardware.boards[d]);
      const Watts cap = clock::power_cap(governor_, model_.conditions().power_limit[d]);
      const Watts waiting = board.power(waits);
      Watts lasting = step_.accounted.devices[d].mean_power;  // of a step's windows one has it
      std::vector<PowerPiece> readings;
      const auto add_burst = [&](const PowerTrace& trace, Watts level, Watts after, double count) {
        const std::vector<PowerPiece> drawn = behind_governor(board, trace, level, cap);
        if (std::ranges::all_of(drawn, [&](const auto& piece) { return piece.power <= lasting; }))
          return;
        for (const PowerPiece& one : power::readings_of(sensor_, waiting, drawn, after))
          readings.push_back({steps_ * count * one.duration, one.power});
      };
      for (size_t u = 0; u < of.phases.size(); ++u) {
        const PhasePower& phase = *of.phases[u];
        peaks.kernel[d] = std::max(peaks.kernel[d], board.highest(phase.kernels));
        const Watts mean = board.power(phase.mean);
        lasting = std::max(lasting, std::min(mean, step_.clocks.devices[d][u].power));
        if (mean <= cap) {
          lasting = std::max(lasting, within_cap(mean, board.highest(phase.windows), cap));
          continue;
        }
        for (size_t rest = 0; rest < rest_classes; ++rest)
          if (const double count = rests[u][rest]; count > 0)
            add_burst(phase.opening,
                      clock::filtered_power(governor_, cap, waiting,
                                            rest_of_class(rest, governor_.power_time_constant)),
                      cap, count);
      }
      for (const auto& piece : ending)
        peaks.kernel[d] = std::max(peaks.kernel[d], board.power(piece.power));
      add_burst(ending, waiting, waiting, 1);
      peaks.sensor[d] = power::highest_reading(sensor_, readings, lasting);
      all.add(peaks.sensor[d], readings);
    }
    return all;
  }

  /// What the sensor shows of a window that draws `power` within a phase that draws `mean`.
  Watts within_cap(Watts mean, Watts power, Watts cap) const {
    if (power <= cap) return power;
    const double free = clock::time_to_cap(governor_, mean, power, cap, window_) / window_;
    return free * power + (1 - free) * cap;
  }

  /// A trace at full power until the governor, which has seen `level`, has seen enough of it.
  std::vector<PowerPiece> behind_governor(const power::Board& board, const PowerTrace& trace,
                                          Watts level, Watts cap) const {
    std::vector<PowerPiece> pieces;
    for (const auto& [duration, drawn] : trace) {
      const Watts power = board.power(drawn);
      const Seconds free = clock::time_to_cap(governor_, level, power, cap, duration);
      level = clock::filtered_power(governor_, level, power, free);
      pieces.push_back({free, power});
      if (free < duration) break;
    }
    return pieces;
  }

  /// Stage, use, link shares, host factor (0: it does not matter), clock index.
  using PhaseKey = std::tuple<size_t, size_t, size_t, double, int64_t>;

  StepModel& model_;
  const CoupledStep& step_;
  const spec::GovernorCoefficients& governor_;
  spec::SensorCoefficients sensor_;
  double steps_;
  Seconds window_;
  std::map<PhaseKey, PhasePower> phases_;
};

}  // namespace

PowerPeaks find_peaks(StepModel& model, const CoupledStep& step) {
  return PeakFinder(model, step).find();
}

}  // namespace triplepoint::sim
