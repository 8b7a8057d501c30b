// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "triplepoint/sim/simulate.h"

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

/// Everything of an outcome that a user reads, in one row.
std::vector<double> numbers_of(const Outcome& o) {
  std::vector<double> all = {*memory(o), o.trained ? 1.0 : 0.0};
  if (!o.trained) return all;
  for (const Value value : {step, energy, power, mean_die, mean_clock, model_flops, hardware_flops})
    all.push_back(value(o).value_or(0));
  const metrics::Metrics& m = o.metrics;
  for (const auto* list : {&m.power_per_gpu_w, &m.temperature_per_gpu_c, &m.sm_clock_per_gpu_mhz})
    all.insert(all.end(), list->begin(), list->end());
  for (const auto& [part, joules] : m.energy_ledger_j)
    all.push_back(joules);
  return all;
}

}  // namespace

Outcome play(const spec::Job& job) {
  Outcome outcome;
  outcome.run = sim::simulate(job, {});
  outcome.trained = !outcome.run.steps.empty();
  if (outcome.trained) outcome.metrics = metrics::measure(outcome.run);
  return outcome;
}

std::optional<double> same_bits(const Outcome& before, const Outcome& after) {
  return numbers_of(before) == numbers_of(after) ? 0 : 1;
}

std::optional<double> same_numbers(const Outcome& before, const Outcome& after) {
  // Devices may have changed places.
  std::vector<double> a = numbers_of(before), b = numbers_of(after);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a.size() != b.size()) return 1;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), std::abs(b[i])));
  return largest;
}

}  // namespace triplepoint::metamorphic
