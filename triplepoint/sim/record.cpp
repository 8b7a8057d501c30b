// SPDX-License-Identifier: Apache-2.0
// From a simulated step to a run: names, units and what a reader of the run needs beside them.
//
// Absent and zero differ here. What a model has not computed (power without coefficients, peaks of
// a transient's plain summaries) stays absent, so that no comparison takes it for a reading.
#include "triplepoint/sim/record.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/power/power.h"
#include "triplepoint/sim/phase_trace.h"
#include "triplepoint/sim/step_profile.h"

namespace triplepoint::sim {
namespace {

// Enough to see the warm-up and drain of a step on a page; a finer look is in the timeline.
constexpr size_t profile_bins = 200;

run::MemoryUse memory_use(const workload::StageMemory& stage) {
  return {.weights = stage.weights,
          .gradients = stage.gradients,
          .optimizer = stage.optimizer,
          .activations = stage.activations,
          .logits = stage.logits,
          .buffers = stage.buffers,
          .reserve = stage.reserve};
}

std::vector<run::Device> list_devices(const spec::Job& job, const workload::WorkGraph& graph) {
  const int64_t per_node = job.cluster.gpus_per_node;
  std::vector<run::Device> devices(as_size(job.cluster.num_gpus()));
  for (size_t i = 0; i < devices.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    devices[i].index = static_cast<int32_t>(index);
    devices[i].node = static_cast<int32_t>(index / per_node);
    devices[i].local = devices[i].slot = static_cast<int32_t>(index % per_node);
    devices[i].name = job.cluster.gpu.title;
  }
  for (int64_t rank = 0; rank < job.world_size(); ++rank)
    devices[as_size(graph.grid.device_of(rank))].rank = static_cast<int32_t>(rank);
  return devices;
}

run::DeviceSummary summarize(const StepModel& model, const StepTimeline& timeline,
                             const DeviceStep& device, const Celsius* die) {
  run::DeviceSummary summary;
  summary.scale_up_bytes = device.scale_up_bytes / unit::B;
  summary.scale_out_bytes = device.scale_out_bytes / unit::B;
  if (!model.has_power()) return summary;
  const double max_mhz = *model.job.cluster.gpu.max_clock / unit::MHz;
  summary.power_mean_w = device.mean_power / unit::W;
  summary.energy_j = device.ledger.total() / unit::J;
  summary.die_mean_c = die->degrees();
  summary.sm_clock_mean_mhz = device.mean_clock_ratio * max_mhz;
  summary.throttle = {{"software_power_cap", device.throttled_power / timeline.step_time},
                      {"software_thermal", device.throttled_thermal / timeline.step_time}};
  const power::EnergyLedger ledger = power::by_flow(model.power(), device.ledger, device.duration);
  summary.energy_ledger_j = {{"idle", ledger.idle / unit::J},
                             {"leakage", ledger.leakage / unit::J},
                             {"compute", ledger.compute / unit::J},
                             {"memory", ledger.memory / unit::J},
                             {"communication", ledger.communication / unit::J},
                             {"waiting", ledger.waiting / unit::J}};
  return summary;
}

void lowest_clocks(run::Run& run, const StepModel& model, const ClockState& clocks) {
  for (size_t d = 0; d < clocks.devices.size(); ++d) {
    double lowest = 1;
    for (const DevicePhase& phase : clocks.devices[d])
      lowest = std::min(lowest, model.clock_ratio(std::ceil(phase.steps_down())));
    run.summaries[d].sm_clock_min_mhz = lowest * (*model.job.cluster.gpu.max_clock / unit::MHz);
  }
}

run::Series make_series(const char* signal, size_t device, Instant begin, Seconds bin,
                        size_t count) {
  run::Series series{.signal = signal, .device = static_cast<int32_t>(device), .of_node = false};
  for (size_t b = 0; b < count; ++b)
    series.times.push_back(begin + as_real(b) * bin);
  series.values.reserve(count);
  return series;
}

/// What a node draws at the wall along the step. Its hosts are busy while the job runs, and its
/// fans stand where heat left them: both move in minutes, not within a step.
run::Series node_series(const spec::Cluster& cluster, const spec::Chassis& chassis, size_t node,
                        double flow, const std::vector<std::vector<StepBin>>& devices,
                        Instant begin, Seconds bin) {
  run::Series series = make_series("node_power_w", node, begin, bin, profile_bins);
  series.of_node = true;
  for (size_t b = 0; b < profile_bins; ++b) {
    Watts drawn =
        sum_of(devices, [&](const std::vector<StepBin>& device) { return device[b].power; });
    series.values.push_back(
        rounded_reading(power::node_power(cluster, chassis, drawn, flow, 1).total() / unit::W));
  }
  return series;
}

/// Power, clock, temperatures and utilization of a device along the step.
void add_device_series(std::vector<run::Series>& all, const spec::Gpu& gpu, size_t device,
                       const std::vector<StepBin>& bins, const std::vector<Celsius>& die,
                       const std::vector<Celsius>* memory, Instant begin, Seconds bin) {
  const auto add = [&](const char* signal, const auto& value) {
    all.push_back(make_series(signal, device, begin, bin, profile_bins));
    for (size_t b = 0; b < profile_bins; ++b)
      all.back().values.push_back(value(b));
  };
  const double max_mhz = *gpu.max_clock / unit::MHz;
  add("power_w", [&](size_t b) { return rounded_reading(bins[b].power / unit::W); });
  add("die_c", [&](size_t b) { return rounded_reading(die[b].degrees()); });
  add("sm_clock_mhz", [&](size_t b) { return rounded_reading(bins[b].clock_ratio * max_mhz); });
  add("throttled_share", [&](size_t b) { return rounded_share(bins[b].throttled); });
  add("utilization", [&](size_t b) { return rounded_share(bins[b].utilization); });
  if (memory) add("memory_c", [&](size_t b) { return rounded_reading((*memory)[b].degrees()); });
}

/// The course of all devices and nodes along the step, and the temperature peaks it shows. Node by
/// node: no node warms another.
void record_profile(run::Run& run, StepModel& model, const CoupledStep& step, ClusterHeat heat,
                    Instant begin, StepSeries keep) {
  const bool all = keep == StepSeries::all;
  const Seconds bin = step.timeline.step_time / as_real(profile_bins);
  const spec::Cluster& cluster = model.job.cluster;
  const spec::Chassis chassis = model.job.chassis();
  const auto memory_power = all ? memory_powers(model, step) : std::nullopt;
  const auto per_node = as_size(cluster.gpus_per_node);
  heat.set_propagators(ClusterHeat::Propagators::own);
  std::vector<run::Series> of_devices;
  for (size_t node = 0; node < as_size(heat.num_nodes()); ++node) {
    const size_t first = node * per_node;
    std::vector<std::vector<StepBin>> bins;
    for (size_t slot = 0; slot < per_node; ++slot)
      bins.push_back(step_bins(model, step, first + slot, profile_bins));
    if (keep != StepSeries::none)
      run.series.push_back(node_series(
          cluster, chassis, node, heat.flow_share(static_cast<int64_t>(node)), bins, begin, bin));
    const std::span<const Watts> of_memory =
        memory_power ? std::span(*memory_power).subspan(first, per_node) : std::span<const Watts>();
    const auto& [dies, memories] = ripple(heat, node, bins, bin, of_memory);
    for (size_t slot = 0; slot < per_node; ++slot) {
      const size_t d = first + slot;
      // Of a power that never changes both are equal but for rounding.
      run.summaries[d].die_peak_c =
          std::max(step.dies[d], *std::ranges::max_element(dies[slot])).degrees();
      if (all)
        add_device_series(of_devices, cluster.gpu, d, bins[slot], dies[slot],
                          memory_power ? &memories[slot] : nullptr, begin, bin);
    }
  }
  std::ranges::move(of_devices, std::back_inserter(run.series));
}

/// Mean clock that the phases of a step lose, in MHz: first to the power cap on boards at inlet
/// temperature, then to the heat they really have (leakage under the cap, thermal limits). And the
/// mean clock of all devices while passes run.
void record_lost_clocks(run::Run& run, StepModel& model, const CoupledStep& step) {
  std::vector<Celsius> inlets;
  for (size_t d = 0; d < step.dies.size(); ++d)
    inlets.push_back(model.hardware.inlet[d / as_size(model.job.cluster.gpus_per_node)]);
  // Two differences of one sum: the highest clock that is allowed (an operator's lock is no loss)
  // to the clock under the cap on boards as cool as their inlet, and from there to the clock that
  // the step had. The two add up to all that is lost.
  const ClockState cold = choose_clocks(model, inlets);
  double to_power = 0, to_temperature = 0, in_passes = 0, clock_in_passes = 0;
  for (const Pipeline& pipeline : model.pipelines)
    for (const LockstepGroup& group : pipeline.groups)
      for (const int64_t device : group.devices)
        for (size_t u = 0; u < model.uses[as_size(group.stage)].size(); ++u) {
          const DevicePhase& now = step.clocks.devices[as_size(device)][u];
          const DevicePhase& then = cold.devices[as_size(device)][u];
          const double count = as_real(model.uses[as_size(group.stage)][u].count);
          const double share = count * (now.duration / step.timeline.step_time);
          const auto locked = as_real(model.conditions().locked_steps[as_size(device)]);
          to_power += share * (model.clock_ratio(locked) - model.clock_ratio(then.steps_down()));
          to_temperature +=
              share * (model.clock_ratio(then.steps_down()) - model.clock_ratio(now.steps_down()));
          in_passes += share;
          clock_in_passes += share * model.clock_ratio(now.steps_down());
        }
  const double max_mhz = *model.job.cluster.gpu.max_clock / unit::MHz;
  const double mean_mhz = max_mhz / as_real(step.dies.size());
  run.numbers.clock_lost_to_power_mhz = to_power * mean_mhz;
  run.numbers.clock_lost_to_temperature_mhz = to_temperature * mean_mhz;
  // Waiting devices run at the highest clock, so the mean over a step says too little of how far
  // clocks fall while passes run.
  run.numbers.clock_in_passes_mhz = clock_in_passes / in_passes * max_mhz;
  // All wait for the hottest GPU, so the mean clock says too little of what heat costs.
  run.numbers.step_without_heat_s = simulate_step(model, cold).step_time / unit::s;
}

/// Of all numbers that data files give a job; two runs with equal digests used the same data.
std::string digest_of_numbers(const spec::Job& job) {
  spec::Job only{.model = job.model, .cluster = job.cluster, .stack = job.stack};
  only.cluster.num_nodes = 1;  // the job's size is no datum
  return digest(spec::write_job(only));
}

/// What each node breathes in. Within a step it does not change.
void record_inlets(run::Run& run, const ClusterHeat& heat, Instant at) {
  for (int64_t node = 0; node < heat.num_nodes(); ++node)
    run.series.push_back({.signal = "inlet_c",
                          .device = static_cast<int32_t>(node),
                          .of_node = true,
                          .times = {at},
                          .values = {rounded_reading(heat.inlet(node).degrees())}});
}

}  // namespace

run::Run start_run(const spec::Job& job, const workload::WorkGraph& graph) {
  run::Run run;
  run.manifest.origin = run::Origin::simulated;
  run.manifest.fidelity = run::Fidelity::steady_state;
  run.manifest.name = job.name;
  run.manifest.job = job;
  run.manifest.producer = program_version();
  run.manifest.numbers = digest_of_numbers(job);
  run.manifest.fits_memory = graph.memory.fits();
  run.manifest.notes = job.notes;
  for (const workload::StageMemory& stage : graph.memory.stages)
    run.memory.push_back(memory_use(stage));
  run.memory_limit = graph.memory.limit;
  run.model_flops = graph.model_flops;
  run.hardware_flops = graph.hardware_flops;
  run.peak_flops = job.cluster.gpu.peak(job.plan.precision);
  run.devices = list_devices(job, graph);
  return run;
}

void record_summaries(run::Run& run, const StepModel& model, const CoupledStep& step) {
  run.summaries.clear();
  for (size_t d = 0; d < step.accounted.devices.size(); ++d)
    run.summaries.push_back(summarize(model, step.timeline, step.accounted.devices[d],
                                      step.dies.empty() ? nullptr : &step.dies[d]));
  if (model.has_power()) lowest_clocks(run, model, step.clocks);
}

namespace {

/// Peaks, lost clocks and the course of power, clock and temperature along the step.
void record_power(run::Run& run, StepModel& model, const CoupledStep& step, ClusterHeat heat,
                  Instant begin, const StepDetail& detail) {
  const PowerPeaks peaks = find_peaks(model, step);
  run.numbers.power_peak_w = peaks.highest / unit::W;
  for (size_t d = 0; d < run.summaries.size(); ++d) {
    run.summaries[d].power_peak_w = peaks.sensor[d] / unit::W;
    run.summaries[d].power_kernel_peak_w = peaks.kernel[d] / unit::W;
  }
  if (detail.timeline) run.numbers.microbatch_swing_w = microbatch_swing(model, step) / unit::W;
  if (detail.causes) record_lost_clocks(run, model, step);
  if (detail.series == StepSeries::all) record_inlets(run, heat, begin);
  const bool readable = step.dies.size() <= most_profiled_devices;
  record_profile(run, model, step, std::move(heat), begin,
                 readable ? detail.series : StepSeries::none);
}

}  // namespace

void record_step(run::Run& run, StepModel& model, const CoupledStep& step,
                 std::optional<ClusterHeat> heat, Instant begin, const StepDetail& detail) {
  record_summaries(run, model, step);
  if (heat) record_power(run, model, step, std::move(*heat), begin, detail);
  if (detail.timeline) record_timeline(run.timeline, model, step, begin);
  if (detail.causes) run.bottlenecks = find_bottlenecks(model, step);
  run.steps.push_back({.begin = begin,
                       .end = begin + step.timeline.step_time,
                       .samples = model.graph.records_per_step,
                       .tokens = model.graph.tokens_per_step});
}

}  // namespace triplepoint::sim
