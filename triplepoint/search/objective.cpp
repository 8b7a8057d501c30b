// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/objective.h"

#include <algorithm>
#include <array>
#include <utility>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/sim/device_phase.h"

namespace triplepoint::search {
namespace {

constexpr std::array<std::string_view, 4> names = {"throughput", "energy", "edp", "cost"};

}  // namespace

std::string_view name_of(Goal goal) {
  return names[as_size(goal)];
}

std::optional<Goal> goal_named(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Goal>(i);
  return std::nullopt;
}

double Objective::value_of(double time, double energy) const {
  switch (goal) {
    case Goal::throughput:
      return time;
    case Goal::energy:
      return energy;
    case Goal::edp:
      return energy * time;
    case Goal::cost:
      return rate * time + price * energy;
  }
  return time;
}

Result<void> parse_power(std::string_view text, search::Limits& limits) {
  constexpr std::pair<std::string_view, std::optional<Watts> Limits::*> levels[] = {
      {"", &Limits::scope_power},
      {"gpu", &Limits::device_power},
      {"node", &Limits::node_power},
      {"cluster", &Limits::total_power},
      {"site", &Limits::site_power}};
  for (const std::string& part : TPT_TRY(split_list(text))) {
    const auto [first, second] = assignments(part).front();
    const std::string level = second ? first : "";
    const auto* known =
        std::ranges::find(levels, level, [](const auto& each) { return each.first; });
    if (known == std::end(levels))
      return error("\"{}\" is not a power limit level; known are gpu, node, cluster, site", level);
    limits.*known->second = TPT_TRY(parse_quantity<Watts>(second.value_or(first)));
  }
  return {};
}

Result<Headroom> parse_headroom(std::string_view text) {
  if (text.empty() || text.back() != '%') return Headroom{TPT_TRY(parse_quantity<Bytes>(text)), 0};
  const int64_t percent = TPT_TRY(parse_count(text.substr(0, text.size() - 1)));
  if (percent < 0 || percent > 90)
    return error("{} % free is no headroom (a plan needs the rest); try 5%", percent);
  return Headroom{Bytes(), as_real(percent) / 100};
}

spec::Job without_layout(const spec::Job& job) {
  spec::Job whole = job;
  const spec::Plan defaults;
  whole.plan.tensor_parallel_size = whole.plan.pipeline_parallel_size = 1;
  whole.plan.context_parallel_size = whole.plan.expert_parallel_size = 1;
  whole.plan.expert_tensor_parallel_size.reset();
  whole.plan.virtual_pipeline_size = whole.plan.micro_batch_size = 1;
  whole.plan.schedule = defaults.schedule;
  whole.plan.layers_per_stage.clear();
  whole.plan.sequence_parallel = whole.plan.overlap_tensor = whole.plan.overlap_pipeline = false;
  // Divisible by any data parallelism, and implausible if the job's own is.
  const int64_t ranks = std::max<int64_t>(whole.world_size(), 1);
  whole.plan.global_batch_size = std::max(ranks, job.plan.global_batch_size / ranks * ranks);
  return whole;
}

search::Objective objective_of(search::Goal goal, const spec::Job& job,
                               const metrics::BillRates& rates, metrics::EnergyScope scope) {
  search::Objective objective{.goal = goal, .scope = scope};
  objective.rate = as_real(job.world_size()) * rates.price_per_gpu_hour / 3600;
  objective.price = rates.price_per_kwh / (unit::kWh / unit::J);
  if (scope == metrics::EnergyScope::gpu) return objective;
  const double nodes = as_real(job.cluster.num_nodes);
  const double gpus = as_real(job.cluster.gpus_per_node);
  const double pue = scope == metrics::EnergyScope::site ? job.environment.pue.value_or(1) : 1;
  // A node's draw is nearly a line in its devices'.
  const Watts low = 0.5 * job.power_limit(), high = 0.9 * job.power_limit();
  const double low_w = sim::typical_node_power(job, low) / unit::W;
  const double slope =
      (sim::typical_node_power(job, high) / unit::W - low_w) / (gpus * ((high - low) / unit::W));
  objective.share = pue * slope;
  objective.at_rest = std::max(0., pue * nodes * (low_w - slope * gpus * (low / unit::W)));
  return objective;
}

double energy_in(metrics::EnergyScope scope, const spec::Job& job, double device_energy,
                 double node_power, double time) {
  if (scope == metrics::EnergyScope::gpu) return device_energy;
  const double pue = scope == metrics::EnergyScope::site ? job.environment.pue.value_or(1) : 1;
  return pue * as_real(job.cluster.num_nodes) * node_power * time;
}

Watts scope_power(metrics::EnergyScope scope, const spec::Job& job, Watts device_power) {
  const double devices = as_real(job.world_size()) * (device_power / unit::W);
  return energy_in(scope, job, devices, sim::typical_node_power(job, device_power) / unit::W, 1) *
         unit::W;
}

}  // namespace triplepoint::search
