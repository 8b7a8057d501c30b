// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/phase_trace.h"

// A phase as power over time. What a sensor's window holds depends on the length of kernels and
// layers: of short layers their mean, of long ones a product alone. So the loads of a phase stand
// in the order of its ops, and filters (power/power_trace.h) slide over them.

#include <algorithm>
#include <cmath>

namespace triplepoint::sim {

spec::GpuLoad load_of(const OpEstimate& estimate, Seconds time) {
  spec::GpuLoad load;
  add_work(load, estimate);
  add_time(load, estimate, time);
  load.duration = time;
  return load;
}

namespace {

/// One repetition of a group: kernels and exposed collectives in order, then what the host or the
/// hidden collectives last longer. Hidden collectives run evenly over all of it.
std::vector<spec::GpuLoad> loads_of(const GroupEstimate& group, const GroupPoint& point,
                                    double clock_ratio, double host_factor) {
  std::vector<spec::GpuLoad> loads;
  const Seconds length = group.length(point, host_factor);
  spec::GpuLoad hidden, rest;
  rest.duration = length;
  for (const OpEstimate& estimate : group.ops) {
    Seconds time = estimate.at(clock_ratio);
    if (estimate.hidden) {
      add_work(hidden, estimate);
      add_time(hidden, estimate, point.hidden_stretch * time);
      continue;
    }
    if (estimate.op->is_matrix_work()) time *= point.compute_stretch;
    if (time <= Seconds()) continue;
    loads.push_back(load_of(estimate, time));
    rest.duration -= time;
  }
  if (rest.duration > Seconds()) loads.push_back(rest);
  for (spec::GpuLoad& load : loads) {
    const Seconds time = load.duration;
    load += time / length * hidden;
    load.communicating = std::min(time, load.communicating);
    load.communicating_scale_out = std::min(load.communicating, load.communicating_scale_out);
  }
  return loads;
}

/// A phase's groups of ops: how long one repetition takes and what it draws.
struct GroupTrace {
  const GroupEstimate* group;
  Seconds length;
  power::PowerTrace once;
};

std::vector<GroupTrace> group_traces(StepModel& model, const PhaseAtClock& at, double host_factor) {
  PhaseTable& table = model.table(at.group, at.use);
  const std::vector<GroupPoint>& points = table.groups_at(at.clock_index);
  const power::ClockPoint& clock = model.clocks()[as_size(at.clock_index)];
  std::vector<GroupTrace> traces;
  for (size_t g = 0; g < points.size(); ++g) {
    const GroupEstimate& group = table.groups()[g];
    GroupTrace& trace =
        traces.emplace_back(&group, group.length(points[g], host_factor), power::PowerTrace());
    for (const spec::GpuLoad& load : loads_of(group, points[g], clock.ratio, host_factor))
      trace.once.push_back({load.duration, power::board_power(model.power(), load, clock)});
  }
  return traces;
}

}  // namespace

power::PowerTrace phase_trace(StepModel& model, const PhaseAtClock& at, Seconds window) {
  std::vector<GroupTrace> left = group_traces(model, at, at.group.host_factor);
  power::PowerTrace phase;
  while (!left.empty()) {
    const std::string_view name = left.front().group->name;
    const auto others = std::stable_partition(
        left.begin(), left.end(), [&](const GroupTrace& one) { return one.group->name == name; });
    Seconds length;
    int64_t repeat = 0;
    for (auto one = left.begin(); one != others; ++one) {
      length += one->length;
      repeat = std::max(repeat, one->group->repeat);
    }
    if (length > Seconds())
      repeat =
          std::min(repeat, 1 + static_cast<int64_t>(std::min(1e6, std::ceil(window / length))));
    for (int64_t k = 0; k < repeat; ++k)
      for (auto one = left.begin(); one != others; ++one)
        if (k < one->group->repeat) phase.insert(phase.end(), one->once.begin(), one->once.end());
    left.erase(left.begin(), others);
  }
  return phase;
}

std::vector<power::BoardPower> highest_kernels(StepModel& model, const PhaseAtClock& at) {
  const power::ClockPoint& clock = model.clocks()[as_size(at.clock_index)];
  std::vector<power::BoardPower> powers;
  // Waits for the host draw least: a host that never keeps the device waiting shows the kernels.
  for (const GroupTrace& trace : group_traces(model, at, 0)) {
    for (const auto& piece : trace.once)
      powers.push_back(piece.power);
    for (const OpEstimate& estimate : trace.group->ops)
      if (const Seconds time = estimate.at(clock.ratio); time > Seconds())
        powers.push_back(power::board_power(model.power(), load_of(estimate, time), clock));
  }
  return power::highest_of(std::move(powers));
}

namespace {

Watts swing_of_stage(StepModel& model, const CoupledStep& step, const LockstepGroup& group) {
  constexpr double low_share = 0.05, high_share = 0.95;
  const auto device = as_size(group.devices.front());
  std::vector<power::PowerPiece> passes;
  for (size_t u = 0; u < step.clocks.devices[device].size(); ++u) {
    const PhaseUse& use = model.uses[as_size(group.stage)][u];
    if (use.count == 0) continue;
    const int64_t index = step.clocks.devices[device][u].clock_index;
    const power::Board board = power::board_at(model.power(), model.clocks()[as_size(index)],
                                               step.dies[device], model.hardware.boards[device]);
    for (const GroupTrace& trace : group_traces(model, {group, use, index}, group.host_factor))
      for (const auto& piece : trace.once)
        passes.push_back({as_real(trace.group->repeat) * piece.duration, board.power(piece.power)});
  }
  if (passes.empty()) return {};
  return power::quantile(passes, high_share) - power::quantile(passes, low_share);
}

}  // namespace

Watts microbatch_swing(StepModel& model, const CoupledStep& step) {
  Watts sum;
  const std::vector<LockstepGroup>& groups = model.pipelines.front().groups;
  for (const LockstepGroup& group : groups)
    sum += swing_of_stage(model, step, group);
  return sum / as_real(groups.size());
}

}  // namespace triplepoint::sim
