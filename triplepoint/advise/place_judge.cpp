// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place_judge.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

#include "triplepoint/run/shutdown.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::advise {
namespace {

/// Slots that are all the mean of the chassis' own: the same heat warms the air of all, by equal
/// parts.
void even_out(spec::Chassis& chassis) {
  const double slots = static_cast<double>(chassis.slots.size());
  if (slots == 0) return;
  spec::Slot mean{.inlet_offset = Kelvins(), .resistance_factor = 0, .upstream_heating = {}};
  double upstream = 0;
  for (const spec::Slot& slot : chassis.slots) {
    mean.inlet_offset += slot.inlet_offset / slots;
    mean.resistance_factor += slot.resistance_factor / slots;
    for (const double part : slot.upstream_heating)
      upstream += part;
  }
  mean.upstream_heating.assign(chassis.slots.size(), upstream / (slots * slots));
  if (upstream == 0) mean.upstream_heating.clear();
  std::fill(chassis.slots.begin(), chassis.slots.end(), mean);
  chassis.inlet_spread = Kelvins();
}

double variance_of(const std::vector<double>& values) {
  double mean = 0, sum = 0;
  for (const double value : values)
    mean += value / static_cast<double>(values.size());
  for (const double value : values)
    sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

double gap_of(const std::vector<double>& temperatures, const ColdMap& map) {
  std::vector<double> sum(map.groups), count(map.groups);
  for (size_t d = 0; d < temperatures.size(); ++d) {
    sum[map.group[d]] += temperatures[d];
    count[map.group[d]] += 1;
  }
  if (count.front() == 0 || count.back() == 0) return 0;
  return sum.back() / count.back() - sum.front() / count.front();
}

/// Mean of a list over the devices of a stage.
double mean_over_stage(const spec::Job& job, const std::vector<double>& per_device, int64_t stage) {
  const workload::RankGrid grid(job);
  double sum = 0, count = 0;
  for (int64_t rank = 0; rank < grid.world_size(); ++rank) {
    const auto device = static_cast<size_t>(grid.device_of(rank));
    if (grid.coordinates(rank).pipeline != stage || device >= per_device.size()) continue;
    sum += per_device[device];
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

std::vector<PlacedStage> describe_stages(const spec::Job& job, const metrics::Metrics& seen,
                                         const ColdMap& map) {
  const std::vector<int64_t> layers = layers_of(job);
  const std::vector<double> coldness = coldness_of_stages(job, map);
  std::vector<PlacedStage> stages;
  for (size_t s = 0; s < coldness.size(); ++s) {
    const auto number = static_cast<int64_t>(s);
    PlacedStage& stage = stages.emplace_back();
    stage.stage = number;
    for (size_t part = s; part < layers.size(); part += coldness.size())
      stage.layers += layers[part];
    stage.coldness = coldness[s];
    for (const metrics::Stage& one : seen.stages)
      if (one.stage == number) stage.busy_s = (one.kernels.total() - one.kernels.waiting) / unit::s;
    stage.clock_mhz = mean_over_stage(job, seen.sm_clock_per_gpu_mhz, number);
    stage.temperature_c = mean_over_stage(job, seen.temperature_per_gpu_c, number);
    stage.power_w = mean_over_stage(job, seen.power_per_gpu_w, number);
  }
  return stages;
}

double step_of(const spec::Job& job) {
  return judge_time(job).value_or(0);
}

}  // namespace

std::optional<double> judge_time(const spec::Job& job) {
  const run::Run run = sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false});
  if (!run::has_trained(run) || run.steps.empty()) return std::nullopt;
  return (run.steps.back().end - run.steps.back().begin) / unit::s;
}

PlacementOutcome judge_placement(const spec::Job& job, const ColdMap& map) {
  const run::Run run = sim::simulate(job, {});
  PlacementOutcome outcome;
  outcome.fits = run::has_trained(run);
  if (!outcome.fits) return outcome;
  const metrics::Metrics seen = metrics::measure(run);
  outcome.step_time = *seen.step_time / unit::s;
  outcome.tokens_per_s = *seen.tokens_per_second;
  outcome.energy = seen.energy_j.value_or(0);
  outcome.tokens_per_j = seen.joules_per_token ? 1 / *seen.joules_per_token : 0;
  outcome.samples_per_s_mj = seen.samples_per_s_mj.value_or(0);
  outcome.gap = gap_of(seen.temperature_per_gpu_c, map);
  outcome.variance = variance_of(seen.temperature_per_gpu_c);
  outcome.mean_c = seen.temperature_mean_c.value_or(0);
  outcome.peak_c = seen.temperature_peak_c.value_or(0);
  for (const auto& [reason, share] : seen.throttle)
    outcome.throttled = std::min(1.0, outcome.throttled + share);
  outcome.stages = describe_stages(job, seen, map);
  return outcome;
}

spec::Job on_mean_boards(spec::Job job) {
  // A clock step of a critical stage is nearly a per cent of the step: as much as heat does. In
  // small steps a difference is not rounded to one of them.
  constexpr double parts = 8;
  if (job.cluster.gpu.governor) {
    job.cluster.gpu.governor->clock_step /= parts;
    job.cluster.gpu.governor->thermal_steps_per_kelvin *= parts;
  }
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.environment.device_power_limits.clear();
  job.environment.device_clock_limits.clear();
  std::erase_if(job.environment.faults, [](const spec::Fault& fault) {
    return fault.kind != spec::FaultKind::inlet && fault.kind != spec::FaultKind::fan &&
           fault.kind != spec::FaultKind::heat_path;
  });
  return job;
}

spec::Job on_alike_machine(spec::Job job) {
  job = on_mean_boards(std::move(job));
  job.environment.faults.clear();
  job.plan.device_order.clear();  // all devices are the same one
  job.plan.node_order.clear();
  even_out(job.cluster.chassis);
  if (job.cluster.liquid_chassis) even_out(*job.cluster.liquid_chassis);
  return job;
}

PlacementReason explain_placement(const spec::Job& placed, const spec::Job& base) {
  spec::Job reordered = base;
  reordered.plan.rank_order = placed.plan.rank_order;
  const double alike_base = step_of(on_alike_machine(base));
  const double alike_placed = step_of(on_alike_machine(placed));
  const double alike_order = step_of(on_alike_machine(reordered));
  const double slots = step_of(on_mean_boards(placed)) - step_of(on_mean_boards(base));
  const double real = step_of(placed) - step_of(base);
  const double alike = alike_placed - alike_base;
  return {.order = alike_order - alike_base,
          .layers = alike_placed - alike_order,
          .heat = slots - alike,
          .boards = real - slots};
}

const PlacedStage& critical_stage(const PlacementOutcome& outcome) {
  TPT_EXPECT(!outcome.stages.empty());
  return *std::max_element(
      outcome.stages.begin(), outcome.stages.end(),
      [](const PlacedStage& a, const PlacedStage& b) { return a.busy_s < b.busy_s; });
}

}  // namespace triplepoint::advise
