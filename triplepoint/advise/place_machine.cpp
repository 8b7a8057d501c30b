// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place_machine.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

constexpr int rounds = 8;
constexpr double least_factor = 0.1, most_factor = 10;

/// Expected reading of every device of the job, K; not-a-number if unknown.
class Target {
 public:
  Target(const spec::Job& job, const std::vector<ThermalSample>& devices)
      : slope_(kelvin_per_watt(job.cluster.gpu).value_or(0)) {
    const bool one_node = std::all_of(devices.begin(), devices.end(),
                                      [](const ThermalSample& one) { return one.node == 0; });
    const int64_t per_node = job.cluster.gpus_per_node;
    wanted_.resize(static_cast<size_t>(job.cluster.num_gpus()));
    for (int64_t node = 0; node < job.cluster.num_nodes; ++node)
      for (const ThermalSample& device : devices)
        if ((one_node || device.node == node) && device.local < per_node)
          wanted_[static_cast<size_t>(node * per_node + device.local)] = device;
  }

  /// Measured less simulated, at the simulated load.
  std::optional<double> missing(size_t device, const ThermalSample& simulated) const {
    const ThermalSample& wanted = wanted_[device];
    if (!wanted.temperature_c || !simulated.temperature_c) return std::nullopt;
    double at_load = *wanted.temperature_c;
    if (wanted.power_w && simulated.power_w)
      at_load += slope_ * (*simulated.power_w - *wanted.power_w);
    return at_load - *simulated.temperature_c;
  }

 private:
  double slope_;
  std::vector<ThermalSample> wanted_;
};

std::vector<ThermalSample> simulated(const spec::Job& job) {
  return thermal_samples(sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false}));
}

double rms(const Target& target, const std::vector<ThermalSample>& now) {
  double sum = 0, count = 0;
  for (size_t d = 0; d < now.size(); ++d)
    if (const auto missing = target.missing(d, now[d])) sum += *missing * *missing, count += 1;
  return count > 0 ? std::sqrt(sum / count) : 0;
}

/// The coolest node of each slot says what its air is like; others of that slot are hotter for
/// their own reasons, which longer paths stand for. They cannot be much shorter.
void move_slots(spec::Chassis& chassis, const Target& target,
                const std::vector<ThermalSample>& now) {
  const size_t slots = chassis.slots.size();
  for (size_t slot = 0; slot < slots; ++slot) {
    std::optional<double> least;
    for (size_t d = slot; d < now.size(); d += slots)
      if (const auto missing = target.missing(d, now[d]))
        least = std::min(least.value_or(*missing), *missing);
    if (least) chassis.slots[slot].inlet_offset += *least * unit::K;
  }
}

/// Temperature of the air at a device while nothing is computed.
double air_c(const spec::Job& job, size_t device) {
  const spec::Chassis chassis = job.chassis();
  return (chassis.inlet +
          chassis.slots[device % static_cast<size_t>(job.cluster.gpus_per_node)].inlet_offset)
      .degrees();
}

void correct_paths(std::vector<double>& factors, const spec::Job& job, const Target& target,
                   const std::vector<ThermalSample>& now) {
  for (size_t d = 0; d < factors.size() && d < now.size(); ++d) {
    const auto missing = target.missing(d, now[d]);
    if (!missing) continue;
    const double rise = std::max(1.0, *now[d].temperature_c - air_c(job, d));
    factors[d] = std::clamp(factors[d] * (1 + *missing / rise), least_factor, most_factor);
  }
}

spec::Job with_paths(spec::Job job, const std::vector<double>& factors) {
  constexpr double min_reported_change = 1e-3;
  for (size_t d = 0; d < factors.size(); ++d) {
    if (std::abs(factors[d] - 1) < min_reported_change) continue;
    spec::Fault fault;
    fault.kind = spec::FaultKind::heat_path;
    fault.gpu = static_cast<int64_t>(d);
    fault.share = factors[d];
    job.environment.faults.push_back(fault);
  }
  return job;
}

}  // namespace

std::optional<double> kelvin_per_watt(const spec::Gpu& gpu) {
  if (!gpu.thermal) return std::nullopt;
  double sum = 0;
  for (const KelvinsPerWatt resistance : gpu.thermal->resistances)
    sum += resistance / (unit::K / unit::W);
  return sum;
}

MatchedMachine match_machine(const spec::Job& job, const std::vector<ThermalSample>& devices) {
  const Target target(job, devices);
  MatchedMachine matched{.job = job, .before_k = 0, .after_k = 0};
  std::vector<ThermalSample> now = simulated(job);
  matched.before_k = matched.after_k = rms(target, now);
  spec::Job base = job;
  const bool has_slots =
      static_cast<int64_t>(job.chassis().slots.size()) == job.cluster.gpus_per_node;
  if (now.empty() || !has_slots) return matched;  // nothing is known of it
  const bool own =
      job.environment.cooling.value_or(job.cluster.chassis.cooling) == job.cluster.chassis.cooling;
  move_slots(
      own || !base.cluster.liquid_chassis ? base.cluster.chassis : *base.cluster.liquid_chassis,
      target, now);
  std::vector<double> factors(static_cast<size_t>(job.cluster.num_gpus()), 1.0);
  for (int round = 0; round < rounds; ++round) {
    const spec::Job next = with_paths(base, factors);
    now = simulated(next);
    const double left = rms(target, now);
    if (left < matched.after_k) matched.after_k = left, matched.job = next;
    correct_paths(factors, base, target, now);
  }
  return matched;
}

}  // namespace triplepoint::advise
