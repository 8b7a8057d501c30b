// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/without_power.h"

#include <algorithm>

namespace triplepoint::sim {
namespace {

/// One pole pair, no heat to carry, one clock. None of these numbers reaches a result.
spec::Job with_stand_ins(spec::Job job) {
  spec::Gpu& gpu = job.cluster.gpu;
  gpu.tdp = gpu.tdp.value_or(1 * unit::W);
  gpu.max_clock = gpu.max_clock.value_or(1 * unit::GHz);
  gpu.compute_units = gpu.compute_units.value_or(1);
  gpu.power = spec::PowerCoefficients();
  gpu.power->leakage_e_fold = 1 * unit::K;
  gpu.thermal = spec::ThermalLadder();
  gpu.thermal->resistances.assign(2, 1 * unit::K / unit::W);
  gpu.thermal->capacities.assign(2, 1 * unit::J / unit::K);
  gpu.governor = spec::GovernorCoefficients();
  gpu.governor->clock_step = gpu.governor->min_clock = *gpu.max_clock;
  gpu.governor->power_window = 100 * unit::ms;
  spec::Chassis& chassis = job.cluster.chassis;
  chassis.volume_flow_m3_s = 1;
  chassis.seats.assign(static_cast<size_t>(job.cluster.gpus_per_node), {});
  return job;
}

void take_out(run::Run& run) {
  run.series.clear();  // of power, temperature, clock, throttling and the node's power: all of them
  for (run::DeviceSummary& device : run.summaries)
    device = {.scale_up_bytes = device.scale_up_bytes, .scale_out_bytes = device.scale_out_bytes};
  for (const char* fact : {"clock_lost_to_power_mhz", "clock_lost_to_temperature_mhz"})
    run.manifest.facts.erase(fact);
}

}  // namespace

bool lacks_power(const spec::Job& job) {
  const spec::Gpu& gpu = job.cluster.gpu;
  return !gpu.power && !gpu.thermal && !gpu.governor;
}

run::Run simulate_without_power(const spec::Job& job,
                                const std::function<run::Run(const spec::Job&)>& simulate) {
  run::Run run = simulate(with_stand_ins(job));
  take_out(run);
  run.manifest.job = job;
  // Ranks that share cores have no more than their share of them.
  const double cores = static_cast<double>(job.cluster.shared_cores);
  if (cores > 0 && run.peak_flops)
    run.peak_flops = std::min(1.0, cores / static_cast<double>(job.world_size())) * *run.peak_flops;
  return run;
}

}  // namespace triplepoint::sim
