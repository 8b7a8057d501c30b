// SPDX-License-Identifier: Apache-2.0
// The clock of one phase on one device, and the few numbers of a typical device that reports and
// searches ask for without a cluster.
#include "triplepoint/sim/device_phase.h"

#include <cmath>

#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/heat.h"

namespace triplepoint::sim {
namespace {

double step_ratio(const spec::Gpu& gpu) {
  return gpu.governor->clock_step / *gpu.max_clock;
}

}  // namespace

std::vector<power::ClockPoint> clock_scale(const spec::Gpu& gpu, int64_t clock_steps) {
  std::vector<power::ClockPoint> scale;
  for (int64_t k = 0; k <= clock_steps; ++k)
    scale.push_back(power::clock_point(*gpu.power, 1 - as_real(k) * step_ratio(gpu)));
  return scale;
}

DevicePhase choose_device_phase(const spec::Job& job, PhaseTable& table,
                                const PhaseConditions& at) {
  const spec::Gpu& gpu = job.cluster.gpu;
  const auto index_of = [&](double ratio) { return std::llround((1 - ratio) / step_ratio(gpu)); };
  const auto point = [&](int64_t index) {
    return at.clocks ? (*at.clocks)[as_size(index)]
                     : power::clock_point(*gpu.power, table.ratio(index));
  };
  const auto power_of = [&](int64_t index) {
    spec::GpuLoad load = table.at(index, at.host_factor).load;
    load += at.exchange;
    return power::gpu_power(*gpu.power, load, point(index), at.die, at.board);
  };
  // The governor sees the mean over phase and exchange, because both are shorter than its window.
  const clock::ClockBounds bounds{
      .limit = at.limit, .locked_steps = at.locked_steps, .guess = at.guess};
  const clock::ClockChoice choice =
      clock::choose_clock(*gpu.governor, *gpu.max_clock, bounds,
                          [&](double ratio) { return power_of(index_of(ratio)); });
  DevicePhase phase;
  phase.capped_index = phase.clock_index = index_of(choice.clock / *gpu.max_clock);
  phase.reason = choice.reason;
  phase.duration = table.at(phase.clock_index, at.host_factor).duration;
  phase.power = power_of(phase.clock_index);
  const Watts cap = clock::power_cap(*gpu.governor, at.limit);
  const auto meets_cap_below = [&](int64_t index, Watts power) {
    return power::die_at_power(*gpu.power, power, point(index), at.die, at.board, cap);
  };
  // The choice holds up to the die temperature at which this clock just meets the cap, and down to
  // the one at which the next higher clock would. Where even the lowest clock exceeds the cap there
  // is no upper bound to leave: no lower clock exists.
  if (phase.power <= cap) phase.hottest = meets_cap_below(phase.clock_index, phase.power);
  if (phase.clock_index > at.locked_steps) {
    const int64_t higher = phase.clock_index - 1;
    phase.coldest = meets_cap_below(higher, power_of(higher));
  }
  return phase;
}

spec::GpuLoad exchange_load(const spec::Stack& stack, const perf::CollectiveTime& send,
                            SendMode mode, workload::ActionKind kind) {
  spec::GpuLoad load;
  load.duration = stack.microbatch_gap;
  if (kind == workload::ActionKind::backward_weight) return load;
  load.communicating = send.total();
  if (send.scale_out_bytes > Bytes()) load.communicating_scale_out = send.total();
  if (mode == SendMode::blocking) load.duration += send.total();
  load.scale_up_bytes = send.scale_up_bytes;
  load.scale_out_bytes = send.scale_out_bytes;
  return load;
}

PhaseTable make_phase_table(const spec::Job& job, std::vector<GroupEstimate> groups) {
  const spec::Gpu& gpu = job.cluster.gpu;
  const spec::GovernorCoefficients& governor = *gpu.governor;
  return {std::move(groups), job.stack, clock::steps_to_lowest_clock(governor, *gpu.max_clock),
          step_ratio(gpu)};
}

Watts typical_power(const spec::Job& job, const spec::GpuLoad& load, double clock_ratio,
                    Celsius die) {
  const spec::Gpu& gpu = job.cluster.gpu;
  const double lowest = gpu.governor->min_clock / *gpu.max_clock;
  return power::gpu_power(*gpu.power, load, clock_ratio > 0 ? clock_ratio : lowest, die, {});
}

namespace {

spec::Job mean_node(spec::Job job) {
  job.cluster.num_nodes = 1;
  job.environment.device_resistances.clear();
  job.cluster.gpu.variability = {};
  job.cluster.chassis.inlet_spread = {};
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->inlet_spread = {};
  return job;
}

ClusterHeat steady_heat(const spec::Job& node, Watts per_device) {
  ClusterHeat heat(node, draw_hardware_variation(node));
  heat.solve_steady_state(std::vector<Watts>(as_size(node.cluster.num_gpus()), per_device));
  return heat;
}

}  // namespace

Celsius typical_die(const spec::Job& job, double share) {
  const spec::Job node = mean_node(job);
  const std::vector<Celsius> dies = steady_heat(node, share * node.power_limit()).dies();
  const double sum = sum_of(dies, [](const Celsius die) { return die.degrees(); });
  return Celsius(sum / as_real(dies.size()));
}

Watts typical_node_power(const spec::Job& job, Watts per_device) {
  const spec::Job node = mean_node(job);
  const double flow = steady_heat(node, per_device).flow_share(0);
  const Watts devices = as_real(node.cluster.gpus_per_node) * per_device;
  return power::node_power(node.cluster, node.chassis(), devices, flow, 1).total();
}

}  // namespace triplepoint::sim
