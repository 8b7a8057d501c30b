// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/node_levels.h"

#include <fmt/format.h>

#include "triplepoint/power/gpu_power.h"
#include "triplepoint/power/node_power.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::calibrate {
namespace {

Watts busy_devices(const run::Run& run, int64_t nodes) {
  double watts = 0;
  for (const run::DeviceSummary& device : run.summaries)
    watts += device.power_mean_w.value_or(0);
  return watts / static_cast<double>(nodes) * unit::W;
}

Watts idle_devices(const spec::Job& job) {
  spec::GpuLoad rest;
  rest.duration = 1 * unit::s;
  const Celsius cool = job.chassis().inlet + 15 * unit::K;
  return static_cast<double>(job.cluster.gpus_per_node) *
         power::gpu_power(*job.cluster.gpu.power, rest, 1, cool, {});
}

/// At work the fans are where the devices' heat brings them, at rest where the chassis leaves them.
NodeLevels levels_of(const spec::Job& job, Watts busy) {
  spec::Job cooled = job;
  cooled.cluster.chassis = job.chassis();
  cooled.environment.cooling.reset();
  const spec::Cluster& node = cooled.cluster;
  const Watts working =
      sim::typical_node_power(cooled, busy / static_cast<double>(node.gpus_per_node));
  const Watts resting =
      power::node_power(node, idle_devices(job), node.chassis.fan_floor, 0).total();
  const double supplied = node.host.conversion_efficiency;
  return {
      .wall = {working, resting}, .supplied = {supplied * working, supplied * resting}, .pace = {}};
}

NodePace pace_of(const spec::Job& job, const run::Run& run) {
  if (run.steps.empty()) return {};
  return {.step = run.steps.back().end - run.steps.back().begin,
          .host = job.stack.step_overhead,
          .batch = static_cast<double>(job.plan.global_batch_size)};
}

}  // namespace

Result<NodeLevels> node_levels(const spec::Job& job) {
  if (!job.cluster.gpu.power || !job.cluster.gpu.thermal || !job.cluster.gpu.governor)
    return error(fmt::format("{} has no model of power and heat", job.cluster.gpu.name));
  const run::Run run = sim::simulate(job, {.timeline = false});
  if (!run.manifest.fits_memory)
    return error("the model predicts that the benchmark's configuration does not fit in memory");
  NodeLevels levels = levels_of(job, busy_devices(run, job.cluster.num_nodes));
  levels.pace = pace_of(job, run);
  return levels;
}

}  // namespace triplepoint::calibrate
