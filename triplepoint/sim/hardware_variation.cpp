// SPDX-License-Identifier: Apache-2.0
// Boards and nodes that differ, and the groups of ranks that wait for the slowest among them.
//
// Quantiles in a random order instead of random draws: the largest of a few draws varies from seed
// to seed, and a comparison of two plans would measure that luck. Each property has a random
// stream, so a spread that is set to zero does not shuffle the others.
//
// A lockstep group is what synchronizes within a microbatch. Ranks that meet only at the end of a
// step form pipelines that run apart, which is what allows a step to be simulated pipeline by
// pipeline.
#include "triplepoint/sim/hardware_variation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "triplepoint/base/random.h"

namespace triplepoint::sim {
namespace {

// One stream of random numbers per question.
enum class Draw : uint64_t { dynamic_energy = 1, leakage, thermal_resistance, host_speed, inlet };

/// Phi^-1(p), 0 < p < 1: the rational start of Abramowitz & Stegun 26.2.23 (error below 5e-4), then
/// three Newton steps on erfc.
double normal_quantile(double p) {
  const double tail = std::min(p, 1 - p);
  const double t = std::sqrt(-2 * std::log(tail));
  double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int i = 0; i < 3; ++i) {
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    z += (0.5 * std::erfc(z / std::numbers::sqrt2) - tail) / density;
  }
  return p < 0.5 ? -z : z;
}

/// n normal quantiles in seeded order.
std::vector<double> deal_spread(int64_t n, uint64_t seed, Draw draw) {
  std::vector<int64_t> order(as_size(n));
  std::iota(order.begin(), order.end(), 0);
  const RandomKey key{seed, static_cast<uint64_t>(draw)};
  std::vector<uint64_t> lot(as_size(n));
  for (size_t i = 0; i < lot.size(); ++i)
    lot[i] = random_bits(key, i);
  std::ranges::stable_sort(order,
                           [&](int64_t a, int64_t b) { return lot[as_size(a)] < lot[as_size(b)]; });
  std::vector<double> spread(as_size(n));
  for (int64_t i = 0; i < n; ++i)
    spread[as_size(order[as_size(i)])] = normal_quantile((as_real(i) + 0.5) / as_real(n));
  return spread;
}

std::vector<double> deal_factors(int64_t n, double deviation, uint64_t seed, Draw draw) {
  std::vector<double> factors(as_size(n), 1.0);
  if (deviation == 0) return factors;
  const std::vector<double> spread = deal_spread(n, seed, draw);
  for (size_t i = 0; i < factors.size(); ++i)
    // A wide spread has quantiles below zero in a large cluster; no board has negative resistance.
    factors[i] = std::max(0.1, 1 + deviation * spread[i]);
  return factors;
}

std::vector<Celsius> deal_inlets(const spec::Job& job) {
  const spec::Chassis chassis = job.chassis();
  std::vector<Celsius> inlets(as_size(job.cluster.num_nodes), chassis.inlet);
  if (chassis.inlet_spread == Kelvins()) return inlets;
  const std::vector<double> spread =
      deal_spread(job.cluster.num_nodes, job.environment.seed, Draw::inlet);
  for (size_t i = 0; i < inlets.size(); ++i)
    inlets[i] = inlets[i] + spread[i] * chassis.inlet_spread;
  return inlets;
}

/// How many consecutive data-parallel indices meet inside a microbatch.
int64_t data_ranks_in_lockstep(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const int64_t data = job.data_parallel_size();
  const bool per_microbatch =
      plan.sharding == spec::Sharding::parameters ||
      (plan.sharding == spec::Sharding::gradients && job.stack.gradient_sync_accumulates);
  if (per_microbatch)
    return plan.sharding_group_size > 0 ? std::min(plan.sharding_group_size, data) : data;
  const int64_t expert_ranks = plan.expert_parallel_size * plan.expert_tensor_size();
  const int64_t dense_ranks = plan.tensor_parallel_size * plan.context_parallel_size;
  return plan.expert_parallel_size == 1 ? 1
                                        : std::clamp<int64_t>(expert_ranks / dense_ranks, 1, data);
}

LockstepGroup form_group(const spec::Job& job, const workload::WorkGraph& graph,
                         const HardwareVariation& hardware, int64_t stage, int64_t first_data,
                         int64_t num_data) {
  LockstepGroup group{.stage = stage, .host_factor = 0, .links = 0};
  for (int64_t d = first_data; d < first_data + num_data; ++d)
    for (int64_t c = 0; c < job.plan.context_parallel_size; ++c)
      for (int64_t t = 0; t < job.plan.tensor_parallel_size; ++t) {
        const workload::RankCoordinates at{
            .tensor = t, .context = c, .expert = 0, .data = d, .pipeline = stage};
        const int64_t rank = graph.grid.rank_at(at);
        group.ranks.push_back(rank);
        group.devices.push_back(graph.grid.device_of(rank));
        const int64_t node = graph.grid.node_of(rank);
        group.host_factor = std::max(group.host_factor, hardware.host_factor[as_size(node)]);
      }
  return group;
}

}  // namespace

HardwareVariation draw_hardware_variation(const spec::Job& job) {
  const spec::Variability& spread = job.cluster.gpu.variability;
  const uint64_t seed = job.environment.seed;
  const int64_t devices = job.cluster.num_gpus();
  const std::vector<double> energy =
      deal_factors(devices, spread.dynamic_energy, seed, Draw::dynamic_energy);
  const std::vector<double> leakage = deal_factors(devices, spread.leakage, seed, Draw::leakage);
  HardwareVariation hardware;
  for (size_t i = 0; i < energy.size(); ++i)
    hardware.boards.push_back({energy[i], leakage[i]});
  hardware.thermal_resistance =
      deal_factors(devices, spread.thermal_resistance, seed, Draw::thermal_resistance);
  const std::vector<double>& known = job.environment.device_resistances;
  TPT_EXPECT(known.size() <= hardware.thermal_resistance.size());
  for (size_t i = 0; i < known.size(); ++i)
    if (known[i] > 0) hardware.thermal_resistance[i] = known[i];
  hardware.host_factor =
      deal_factors(job.cluster.num_nodes, job.cluster.host.speed_spread, seed, Draw::host_speed);
  hardware.inlet = deal_inlets(job);
  return hardware;
}

Pipeline form_pipeline(const spec::Job& job, const workload::WorkGraph& graph,
                       const HardwareVariation& hardware, int64_t first_data) {
  const int64_t lockstep = data_ranks_in_lockstep(job);
  Pipeline pipeline;
  for (int64_t stage = 0; stage < graph.stages; ++stage)
    pipeline.groups.push_back(form_group(job, graph, hardware, stage, first_data, lockstep));
  return pipeline;
}

std::vector<Pipeline> form_pipelines(const spec::Job& job, const workload::WorkGraph& graph,
                                     const HardwareVariation& hardware) {
  const int64_t lockstep = data_ranks_in_lockstep(job);
  std::vector<Pipeline> pipelines;
  for (int64_t d = 0; d < job.data_parallel_size(); d += lockstep)
    pipelines.push_back(form_pipeline(job, graph, hardware, d));
  return pipelines;
}

}  // namespace triplepoint::sim
