// SPDX-License-Identifier: Apache-2.0
// What the numbers of one job have to do with each other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

using Amount = std::optional<double>;

double apart(double a, double b) {
  return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}
double devices(const spec::Job& job) {
  return as_real(job.world_size());
}
double all_of(const auto& parts) {
  return sum_of(parts, [](const auto& part) { return part.second; });
}

Amount ledger_is_energy(const spec::Job&, const Outcome& o) {
  return apart(all_of(o.metrics.energy_ledger_j), *energy(o));
}
Amount no_ledger_part_negative(const spec::Job&, const Outcome& o) {
  double lowest = 0;
  for (const auto& [part, joules] : o.metrics.energy_ledger_j)
    lowest = std::min(lowest, joules);
  return -lowest;
}
Amount energy_is_power_by_time(const spec::Job& job, const Outcome& o) {
  return apart(*power(o) * devices(job) * *step(o), *energy(o)) - clock_resolution(o);
}
Amount ledger_of_each_device(const spec::Job&, const Outcome& o) {
  return most_of(o.run.summaries, [](const run::DeviceSummary& device) {
    return apart(all_of(device.energy_ledger_j), *device.energy_j);
  });
}
Amount tokens_by_step(const spec::Job& job, const Outcome& o) {
  const double per_sequence =
      job.task == spec::Task::decode ? 1 : as_real(job.model.sequence_length);
  return apart(*o.metrics.tokens_per_second * *step(o),
               as_real(job.plan.global_batch_size) * per_sequence);
}
Amount mfu_is_flops(const spec::Job& job, const Outcome& o) {
  const double peak = *o.run.peak_flops / (unit::FLOP / unit::s) * devices(job);
  return apart(*o.metrics.mfu * peak * *step(o), *model_flops(o));
}
Amount hfu_at_least_mfu(const spec::Job&, const Outcome& o) {
  if (!o.metrics.hfu) return std::nullopt;
  return *o.metrics.mfu - *o.metrics.hfu;
}
Amount hfu_at_most_one(const spec::Job&, const Outcome& o) {
  if (!o.metrics.hfu) return std::nullopt;
  return *o.metrics.hfu - 1;
}
Amount parts_are_the_step(const spec::Job&, const Outcome& o) {
  if (!o.metrics.parts) return std::nullopt;
  return apart(o.metrics.parts->total() / unit::s, *step(o));
}
Amount no_part_negative(const spec::Job&, const Outcome& o) {
  if (!o.metrics.parts) return std::nullopt;
  const metrics::StepParts& p = *o.metrics.parts;
  const Seconds lowest =
      std::min({p.computing, p.copying, p.exposed_communication, p.waiting, p.bubble, p.gaps});
  return -(lowest / unit::s);
}
Amount one_stage_has_no_bubble(const spec::Job& job, const Outcome& o) {
  if (job.plan.pipeline_parallel_size > 1 || !o.metrics.parts) return std::nullopt;
  return o.metrics.parts->bubble / unit::s;
}
Amount mean_at_most_peak_die(const spec::Job&, const Outcome& o) {
  double largest = -1;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max(largest, *device.die_mean_c - *device.die_peak_c);
  return largest;
}
Amount mean_at_most_peak_power(const spec::Job&, const Outcome& o) {
  double largest = -1;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max(largest, *device.power_mean_w / *device.power_peak_w - 1);
  return largest;
}
Amount sensor_at_most_kernel_peak(const spec::Job&, const Outcome& o) {
  double largest = -1;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max(largest, *device.power_peak_w / *device.power_kernel_peak_w - 1);
  return largest;
}
Amount below_limit(const spec::Job& job, const Outcome& o) {
  const double share = job.cluster.gpu.governor->regulation_share;
  double largest = -1;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max(largest, *device.power_mean_w / (share * (job.power_limit() / unit::W)) - 1);
  return largest;
}
Amount clock_within_range(const spec::Job& job, const Outcome& o) {
  const double top = *job.cluster.gpu.max_clock / unit::MHz;
  const double lowest = job.cluster.gpu.governor->min_clock / unit::MHz;
  double largest = -1;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max({largest, *device.sm_clock_mean_mhz - top, lowest - *device.sm_clock_min_mhz,
                        *device.sm_clock_min_mhz - *device.sm_clock_mean_mhz});
  return largest / top;
}
Amount die_above_inlet(const spec::Job& job, const Outcome& o) {
  const double coldest = (job.chassis().inlet - 6 * job.chassis().inlet_spread).degrees();
  double largest = -100;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max(largest, coldest - *device.die_mean_c);
  return largest;
}
Amount power_above_idle(const spec::Job& job, const Outcome& o) {
  double largest = -1;
  const double idle = job.cluster.gpu.power->idle / unit::W;
  for (const run::DeviceSummary& device : o.run.summaries)
    largest = std::max(largest, 1 - *device.power_mean_w / idle);
  return largest;
}
Amount shares_of_throttling(const spec::Job&, const Outcome& o) {
  double largest = -1;
  for (const run::DeviceSummary& device : o.run.summaries)
    for (const auto& [reason, share] : device.throttle)
      largest = std::max({largest, share - 1, -share});
  return largest;
}
Amount nodes_draw_more_than_devices(const spec::Job&, const Outcome& o) {
  if (!o.metrics.node_energy_j) return std::nullopt;
  return *energy(o) / *node_energy(o) - 1;
}
Amount largest_stage_is_within_memory(const spec::Job&, const Outcome& o) {
  return *memory(o) / (*o.run.memory_limit / unit::B) - 1;
}
Amount heat_only_costs(const spec::Job&, const Outcome& o) {
  if (!o.metrics.step_without_heat) return std::nullopt;
  return *o.metrics.step_without_heat / unit::s / *step(o) - 1 - clock_resolution(o);
}
Amount communication_is_whole(const spec::Job&, const Outcome& o) {
  const metrics::Metrics& m = o.metrics;
  if (!m.exposed_communication || !m.overlapped_communication) return std::nullopt;
  const Seconds busy = m.kernels.communication();
  return (*m.exposed_communication + *m.overlapped_communication) / *m.step_time -
         busy / *m.step_time;
}
Amount stages_are_the_mean(const spec::Job&, const Outcome& o) {
  if (o.metrics.stages.empty()) return std::nullopt;
  double sum = sum_of(o.metrics.stages,
                      [&](const metrics::Stage& stage) { return stage.kernels.total() / unit::s; });
  return apart(sum / as_real(o.metrics.stages.size()), o.metrics.kernels.total() / unit::s);
}
Amount active_at_most_all_flops(const spec::Job&, const Outcome& o) {
  return *model_flops(o) / *hardware_flops(o) - 1;
}

}  // namespace

const std::vector<Identity>& identities() {
  static const std::vector<Identity> all = {
      {"parts of the energy ledger add up to the energy", ledger_is_energy, 1e-9, "rounding"},
      {"no part of the ledger is negative", no_ledger_part_negative},
      {"energy = mean power x devices x step", energy_is_power_by_time, 1e-9, "rounding"},
      {"each device's ledger adds up to its energy", ledger_of_each_device, 1e-9, "rounding"},
      {"tokens/s x step = tokens of the batch", tokens_by_step, 1e-9, "rounding"},
      {"MFU x peak x step = model FLOP", mfu_is_flops, 1e-9, "rounding"},
      {"HFU at least MFU", hfu_at_least_mfu, 1e-12, "rounding"},
      {"HFU at most 1", hfu_at_most_one},
      {"hardware FLOP at least model FLOP", active_at_most_all_flops, 1e-12, "rounding"},
      {"parts of the step add up to it", parts_are_the_step, 1e-9, "rounding"},
      {"no part of the step is negative", no_part_negative},
      {"one stage has no bubble", one_stage_has_no_bubble},
      {"kernel time is the mean over stages", stages_are_the_mean, 1e-9, "rounding"},
      {"exposed and overlapped communication are within its kernels", communication_is_whole, 1e-9,
       "rounding"},
      {"mean die at most its peak", mean_at_most_peak_die, settled_kelvins, "0.01 K"},
      {"mean power at most its peak", mean_at_most_peak_power, 1e-9, "rounding"},
      {"a sensor's peak is at most a kernel's", sensor_at_most_kernel_peak, 1e-9, "rounding"},
      {"no device above the limit", below_limit, 1e-9, "rounding"},
      {"no device below its idle power", power_above_idle},
      {"lowest clock <= mean clock <= highest clock", clock_within_range, 1e-9, "rounding"},
      {"no die below the inlet", die_above_inlet},
      {"shares of throttling between 0 and 1", shares_of_throttling, 1e-9, "rounding"},
      {"nodes draw more than their devices", nodes_draw_more_than_devices},
      {"what runs is within memory", largest_stage_is_within_memory},
      {"without heat not slower", heat_only_costs, 1e-9, "rounding"}};
  return all;
}

}  // namespace triplepoint::metamorphic
