// SPDX-License-Identifier: Apache-2.0
// From a simulated step to a run: names, units and what a reader of the run needs beside them.
//
// Absent and zero differ here. What a model has not computed (power without coefficients, peaks of
// a transient's plain summaries) stays absent, so that no comparison takes it for a reading.
#include "triplepoint/sim/record.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/power/power.h"
#include "triplepoint/sim/microbatch_swing.h"
#include "triplepoint/sim/pace.h"
#include "triplepoint/sim/peaks.h"
#include "triplepoint/sim/power_profile.h"

namespace triplepoint::sim {
namespace {

// Enough to see the warm-up and drain of a step on a page; a finer look is in the timeline.
constexpr int64_t profile_bins = 200;

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
  std::vector<run::Device> devices(static_cast<size_t>(job.cluster.num_gpus()));
  for (size_t i = 0; i < devices.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    devices[i].index = static_cast<int32_t>(index);
    devices[i].node = static_cast<int32_t>(index / per_node);
    devices[i].local = devices[i].slot = static_cast<int32_t>(index % per_node);
    devices[i].name = job.cluster.gpu.title;
  }
  for (int64_t rank = 0; rank < job.world_size(); ++rank)
    devices[static_cast<size_t>(graph.grid.device_of(rank))].rank = static_cast<int32_t>(rank);
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
  run::Series series{.signal = signal,
                     .device = static_cast<int32_t>(device),
                     .of_node = false,
                     .times = {},
                     .values = {}};
  for (size_t b = 0; b < count; ++b)
    series.times.push_back(begin + static_cast<double>(b) * bin);
  series.values.reserve(count);
  return series;
}

/// What each node draws at the wall along the step. Its hosts are busy while the job runs, and its
/// fans stand where heat left them: both move in minutes, not within a step.
void record_nodes(run::Run& run, const spec::Job& job, const StepProfile& profile,
                  const ClusterHeat& heat, Instant begin) {
  spec::Cluster cluster = job.cluster;
  cluster.chassis = job.chassis();
  const auto per_node = static_cast<size_t>(cluster.gpus_per_node);
  const size_t bins = profile.power.empty() ? 0 : profile.power[0].size();
  for (size_t node = 0; node * per_node < profile.power.size(); ++node) {
    run::Series series = make_series("node_power_w", node, begin, profile.bin, bins);
    series.of_node = true;
    const double flow = heat.flow_share(static_cast<int64_t>(node));
    for (size_t b = 0; b < bins; ++b) {
      Watts devices;
      for (size_t d = node * per_node; d < (node + 1) * per_node; ++d)
        devices += profile.power[d][b];
      const power::NodePower drawn = power::node_power(cluster, devices, flow, 1);
      series.values.push_back(kept_reading(drawn.total() / unit::W));
    }
    run.series.push_back(std::move(series));
  }
}

/// Power, clock, temperatures and utilization of every device along the step, and the peaks they
/// show.
void record_profile(run::Run& run, StepModel& model, const CoupledStep& step, ClusterHeat heat,
                    Instant begin, StepSeries keep) {
  const bool all = keep == StepSeries::all;
  const StepProfile profile =
      profile_step(model, step, profile_bins, all ? Profiled::all : Profiled::power);
  if (keep != StepSeries::none) record_nodes(run, model.job, profile, heat, begin);
  const auto memory_power = all ? memory_powers(model, step) : std::optional<std::vector<Watts>>();
  const auto& [peaks, dies, memories] = ripple(std::move(heat), profile, all, memory_power);
  // Of a power that never changes both are equal but for rounding.
  for (size_t d = 0; d < peaks.size(); ++d)
    run.summaries[d].die_peak_c = std::max(step.dies[d], peaks[d]).degrees();
  if (!all) return;
  const double max_mhz = *model.job.cluster.gpu.max_clock / unit::MHz;
  for (size_t d = 0; d < dies.size(); ++d) {
    run::Series power = make_series("power_w", d, begin, profile.bin, dies[d].size());
    run::Series die = make_series("die_c", d, begin, profile.bin, dies[d].size());
    run::Series clock = make_series("sm_clock_mhz", d, begin, profile.bin, dies[d].size());
    run::Series held = make_series("throttled_share", d, begin, profile.bin, dies[d].size());
    for (size_t b = 0; b < dies[d].size(); ++b) {
      power.values.push_back(kept_reading(profile.power[d][b] / unit::W));
      die.values.push_back(kept_reading(dies[d][b].degrees()));
      clock.values.push_back(kept_reading(profile.clock_ratio[d][b] * max_mhz));
      held.values.push_back(kept_share(profile.throttled[d][b]));
    }
    run::Series use = make_series("utilization", d, begin, profile.bin, dies[d].size());
    for (const double share : profile.utilization[d])
      use.values.push_back(kept_share(share));
    for (run::Series* series : {&power, &die, &clock, &held, &use})
      run.series.push_back(std::move(*series));
    if (memories.empty()) continue;
    run.series.push_back(make_series("memory_c", d, begin, profile.bin, dies[d].size()));
    for (const Celsius memory : memories[d])
      run.series.back().values.push_back(kept_reading(memory.degrees()));
  }
}

/// Mean clock that the phases of a step lose, in MHz: first to the power cap on boards at inlet
/// temperature, then to the heat they really have (leakage under the cap, thermal limits). And the
/// mean clock of all devices while passes run.
void record_lost_clocks(run::Run& run, StepModel& model, const CoupledStep& step) {
  std::vector<Celsius> inlets;
  for (size_t d = 0; d < step.dies.size(); ++d)
    inlets.push_back(
        model.hardware.inlet[d / static_cast<size_t>(model.job.cluster.gpus_per_node)]);
  // Two differences of one sum: the highest clock that is allowed (an operator's lock is no loss)
  // to the clock under the cap on boards as cool as their inlet, and from there to the clock that
  // the step had. The two add up to all that is lost.
  const ClockState cold = choose_clocks(model, inlets);
  double to_power = 0, to_temperature = 0, in_passes = 0, clock_in_passes = 0;
  for (const Pipeline& pipeline : model.pipelines)
    for (const LockstepGroup& group : pipeline.groups)
      for (const int64_t device : group.devices)
        for (size_t u = 0; u < model.uses[static_cast<size_t>(group.stage)].size(); ++u) {
          const DevicePhase& now = step.clocks.devices[static_cast<size_t>(device)][u];
          const DevicePhase& then = cold.devices[static_cast<size_t>(device)][u];
          const double count =
              static_cast<double>(model.uses[static_cast<size_t>(group.stage)][u].count);
          const double share = count * (now.duration / step.timeline.step_time);
          const auto locked =
              static_cast<double>(model.conditions().locked_steps[static_cast<size_t>(device)]);
          to_power += share * (model.clock_ratio(locked) - model.clock_ratio(then.steps_down()));
          to_temperature +=
              share * (model.clock_ratio(then.steps_down()) - model.clock_ratio(now.steps_down()));
          in_passes += share;
          clock_in_passes += share * model.clock_ratio(now.steps_down());
        }
  const double max_mhz = *model.job.cluster.gpu.max_clock / unit::MHz;
  const double mean_mhz = max_mhz / static_cast<double>(step.dies.size());
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
                          .values = {kept_reading(heat.inlet(node).degrees())}});
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
  std::vector<DeviceStep> devices = step.accounted.devices;
  const Watts peak = add_peaks(model, step, devices);
  run.numbers.power_peak_w = peak / unit::W;
  for (size_t d = 0; d < devices.size(); ++d) {
    run.summaries[d].power_peak_w = devices[d].sensor_peak / unit::W;
    run.summaries[d].power_kernel_peak_w = devices[d].instant_peak / unit::W;
  }
  if (detail.timeline) run.numbers.microbatch_swing_w = microbatch_swing(model, step) / unit::W;
  if (detail.causes) record_lost_clocks(run, model, step);
  if (detail.series == StepSeries::all) record_inlets(run, heat, begin);
  const bool readable = devices.size() <= most_profiled_devices;
  record_profile(run, model, step, std::move(heat), begin,
                 readable ? detail.series : StepSeries::none);
}

}  // namespace

void record_step(run::Run& run, StepModel& model, const CoupledStep& step,
                 std::optional<ClusterHeat> heat, Instant begin, const StepDetail& detail) {
  record_summaries(run, model, step);
  if (heat) record_power(run, model, step, std::move(*heat), begin, detail);
  if (detail.timeline) record_timeline(run.timeline, model, step, begin);
  if (detail.causes) run.pace_setters = find_pace_setters(model, step);
  run.steps.push_back({.begin = begin,
                       .end = begin + step.timeline.step_time,
                       .samples = model.graph.records_per_step,
                       .tokens = model.graph.tokens_per_step});
}

}  // namespace triplepoint::sim
