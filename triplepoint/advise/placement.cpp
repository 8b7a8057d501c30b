// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "triplepoint/base/result.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/run/run.h"

#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::advise {
namespace {

int64_t node_at(const spec::Plan& plan, int64_t block) {
  return plan.node_order.empty() ? block : plan.node_order[as_size(block)];
}

/// The devices of a block's node in the order in which the plan's ranks take them.
std::vector<int64_t> order_written_out(const spec::Job& job) {
  const size_t per_node = as_size(job.cluster.gpus_per_node);
  const size_t devices = as_size(job.cluster.num_gpus());
  std::vector<int64_t> order(devices);
  const std::vector<int64_t>& said = job.plan.device_order;
  for (size_t d = 0; d < devices; ++d) {
    if (said.empty())
      order[d] = static_cast<int64_t>(d % per_node);
    else
      order[d] = said[said.size() == devices ? d : d % per_node];
  }
  return order;
}

}  // namespace

std::vector<int64_t> ColdMap::cold_first(int64_t node, int64_t gpus_per_node) const {
  std::vector<int64_t> order(as_size(gpus_per_node));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto group_at = [&](int64_t local) { return group[as_size(node * gpus_per_node + local)]; };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return group_at(a) < group_at(b); });
  return order;
}

ColdMap cold_map(const ThermalGroups& found, const std::vector<ThermalSample>& devices,
                 const spec::Job& job) {
  const int64_t per_node = job.cluster.gpus_per_node;
  const bool one_node =
      std::ranges::all_of(devices, [](const ThermalSample& one) { return one.node == 0; });
  ColdMap map{.group = std::vector<size_t>(as_size(job.cluster.num_gpus())),
              .groups = found.groups.size(),
              .node_effect = std::vector<double>(as_size(job.cluster.num_nodes))};
  for (int64_t node = 0; node < job.cluster.num_nodes; ++node)
    for (size_t i = 0; i < devices.size(); ++i) {
      const bool is_here = one_node || devices[i].node == node;
      if (is_here && devices[i].local < per_node)
        map.group[as_size(node * per_node + devices[i].local)] = found.group_of[i];
    }
  for (size_t n = 0; !one_node && n < map.node_effect.size(); ++n)
    if (n < found.node_effects.size()) map.node_effect[n] = found.node_effects[n];
  return map;
}

std::vector<NodeStages> stages_of_nodes(const spec::Job& job) {
  const workload::RankGrid grid(job);
  const int64_t per_node = job.cluster.gpus_per_node;
  std::vector<NodeStages> nodes;
  for (int64_t block = 0; block < job.cluster.num_nodes; ++block) {
    std::map<int64_t, std::vector<int64_t>> locals;
    for (int64_t local = 0; local < per_node; ++local)
      locals[grid.coordinates(block * per_node + local).pipeline].push_back(local);
    NodeStages& node = nodes.emplace_back();
    node.node = node_at(job.plan, block);
    for (auto& [stage, own] : locals) {
      node.stages.push_back(stage);
      node.locals.push_back(std::move(own));
    }
  }
  return nodes;
}

bool mixes_stages(const spec::Job& job) {
  const std::vector<NodeStages> nodes = stages_of_nodes(job);
  return std::ranges::any_of(nodes, [](const NodeStages& node) { return node.stages.size() > 1; });
}

spec::Plan place_cold_first(const spec::Job& job, const ColdMap& map,
                            const std::vector<std::vector<size_t>>& preference) {
  const int64_t per_node = job.cluster.gpus_per_node;
  spec::Plan plan = job.plan;
  plan.device_order = order_written_out(job);
  const std::vector<NodeStages> nodes = stages_of_nodes(job);
  for (size_t block = 0; block < nodes.size(); ++block) {
    const NodeStages& node = nodes[block];
    const std::vector<int64_t> cold = map.cold_first(node.node, per_node);
    std::vector<size_t> wanted(node.stages.size());
    std::iota(wanted.begin(), wanted.end(), size_t{0});
    if (block < preference.size() && !preference[block].empty()) wanted = preference[block];
    size_t next = 0;
    for (const size_t which : wanted)
      for (const int64_t local : node.locals[which])
        plan.device_order[as_size(node.node * per_node + local)] = cold[next++];
  }
  shorten_orders(plan, job);
  return plan;
}

void shorten_orders(spec::Plan& plan, const spec::Job& job) {
  const size_t per_node = as_size(job.cluster.gpus_per_node);
  std::vector<int64_t>& order = plan.device_order;
  bool alike = true;
  for (size_t d = per_node; d < order.size(); ++d)
    alike = alike && order[d] == order[d % per_node];
  if (alike && order.size() > per_node) order.resize(per_node);
  const auto is_identity = [](const std::vector<int64_t>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != static_cast<int64_t>(i)) return false;
    return true;
  };
  if (alike && is_identity(order)) order.clear();
  if (is_identity(plan.node_order)) plan.node_order.clear();
}

std::vector<double> stage_means(const spec::Job& job, const std::vector<double>& per_device) {
  const workload::RankGrid grid(job);
  std::vector<double> means(as_size(job.plan.pipeline_parallel_size)), count(means.size());
  for (int64_t rank = 0; rank < grid.world_size(); ++rank) {
    const auto stage = as_size(grid.coordinates(rank).pipeline);
    const auto device = as_size(grid.device_of(rank));
    if (device >= per_device.size()) continue;
    means[stage] += per_device[device];
    count[stage] += 1;
  }
  for (size_t s = 0; s < means.size(); ++s)
    means[s] = count[s] > 0 ? means[s] / count[s] : 0;
  return means;
}

std::vector<double> coldness_of_stages(const spec::Job& job, const ColdMap& map) {
  return stage_means(job, {map.group.begin(), map.group.end()});
}

std::vector<int64_t> layers_of(const spec::Job& job) {
  const auto layout = workload::lay_out_layers(job);
  std::vector<int64_t> layers;
  for (size_t chunk = 0; chunk < layout.front().size(); ++chunk)
    for (const auto& stage : layout)
      layers.push_back(stage[chunk].layers());
  return layers;
}

std::vector<int64_t> shift_layers(const spec::Job& job, const std::vector<double>& coldness,
                                  int64_t extra) {
  std::vector<int64_t> layers = layers_of(job);
  const double mean =
      std::accumulate(coldness.begin(), coldness.end(), 0.0) / as_real(coldness.size());
  int64_t given = 0;
  for (size_t part = 0; part < layers.size(); ++part) {
    const double warmer = coldness[part % coldness.size()] - mean;
    const int64_t more = warmer < -1e-9 ? extra : warmer > 1e-9 ? -extra : 0;
    layers[part] += more;
    given += more;
  }
  layers.back() -= given;
  const bool whole = std::ranges::all_of(layers, [](int64_t n) { return n > 0; });
  return whole ? layers : std::vector<int64_t>();
}

namespace {

double variance_of(const std::vector<double>& values) {
  double mean = 0, sum = 0;
  for (const double value : values)
    mean += value / as_real(values.size());
  for (const double value : values)
    sum += (value - mean) * (value - mean);
  return sum / as_real(values.size());
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

std::vector<PlacedStage> describe_stages(const spec::Job& job, const metrics::Metrics& seen,
                                         const ColdMap& map) {
  const std::vector<int64_t> layers = layers_of(job);
  const std::vector<double> coldness = coldness_of_stages(job, map),
                            clocks = stage_means(job, seen.sm_clock_per_gpu_mhz),
                            temperatures = stage_means(job, seen.temperature_per_gpu_c),
                            powers = stage_means(job, seen.power_per_gpu_w);
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
    stage.clock_mhz = clocks[s];
    stage.temperature_c = temperatures[s];
    stage.power_w = powers[s];
  }
  return stages;
}

}  // namespace

std::optional<double> judge_time(const spec::Job& job) {
  const std::optional<Seconds> step = sim::find_steady_step_time(job);
  if (!step) return std::nullopt;
  return (instant_at(*step) - Instant()) / unit::s;  // whole ns, as a run records it
}

PlacementOutcome judge_placement(const spec::Job& job, const ColdMap& map,
                                 metrics::EnergyScope scope) {
  const run::Run run = sim::simulate(job, {});
  PlacementOutcome outcome;
  outcome.fits = run::has_trained(run);
  if (!outcome.fits) return outcome;
  metrics::Metrics seen = metrics::measure(run);
  metrics::count_energy_at(scope, seen);
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

const PlacedStage& critical_stage(const PlacementOutcome& outcome) {
  TPT_EXPECT(!outcome.stages.empty());
  return *std::ranges::max_element(outcome.stages, {}, &PlacedStage::busy_s);
}

bool has_spread(const spec::Job& job) {
  return job.cluster.gpu.variability != spec::Variability{} || job.cluster.host.speed_spread > 0 ||
         job.chassis().inlet_spread > Kelvins();
}

std::vector<spec::Job> drawn_machines(const spec::Job& job, int64_t count) {
  if (!has_spread(job)) return {job};
  std::vector<spec::Job> machines(as_size(count), job);
  for (size_t i = 0; i < machines.size(); ++i)
    machines[i].environment.seed = i + 1;
  return machines;
}

spec::Job on_expected_machine(spec::Job job) {
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.chassis.inlet_spread = Kelvins();
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->inlet_spread = Kelvins();
  return job;
}

spec::Job with_equal_slots(spec::Job job) {
  const auto level = [](spec::Chassis& chassis) {
    for (spec::Slot& slot : chassis.slots)
      slot = {.inlet_offset = Kelvins(), .resistance_factor = 1};
  };
  level(job.cluster.chassis);
  if (job.cluster.liquid_chassis) level(*job.cluster.liquid_chassis);
  std::erase_if(job.environment.faults,
                [](const spec::Fault& fault) { return fault.kind == spec::FaultKind::heat_path; });
  return job;
}

spec::Job with_fine_clocks(spec::Job job) {
  constexpr double parts = 8;
  if (!job.cluster.gpu.governor) return job;
  job.cluster.gpu.governor->clock_step /= parts;
  job.cluster.gpu.governor->thermal_steps_per_kelvin *= parts;
  return job;
}

MachineGains summarize_gains(const std::vector<double>& gains) {
  MachineGains summary;
  if (gains.empty()) return summary;
  summary.machines = static_cast<int64_t>(gains.size());
  summary.mean = mean(gains);
  summary.worst = *std::ranges::min_element(gains);
  summary.gaining = std::ranges::count_if(gains, [](double gain) { return gain > 0; });
  return summary;
}

}  // namespace triplepoint::advise
