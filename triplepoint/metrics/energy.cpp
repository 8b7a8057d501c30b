// SPDX-License-Identifier: Apache-2.0
// How much power and energy, and what is it spent on?
//
//   energy_j         = one step, all GPUs, device scope
//   joules_per_token = energy_j / tokens of the step
//   samples_per_s_mj = samples per second / energy_j in MJ; of training only
// Source of the last: "Characterizing the Efficiency of Distributed Training", MICRO 2025,
// figure 4.
#include "triplepoint/metrics/inference.h"
#include "triplepoint/metrics/view.h"

namespace triplepoint::metrics {

namespace {

using run::DeviceSummary;

/// One step of everything that draws from the nodes' supplies; known only if every node was
/// watched.
std::optional<double> node_energy(const View& view, Seconds step_time) {
  std::optional<double> watts;
  for (const run::Series& series : view.run.series) {
    if (!series.of_node || series.signal != "node_power_w" || !view.window) continue;
    const auto all = run::statistics(series, view.window->begin, view.window->end);
    if (all.count == 0) return std::nullopt;
    watts = watts.value_or(0) + all.time_weighted_mean;
  }
  if (!watts) return std::nullopt;
  return *watts * (step_time / unit::s);
}

std::map<std::string, double> ledger(const std::vector<DeviceSummary>& devices) {
  std::map<std::string, double> sum;
  for (const DeviceSummary& device : devices)
    for (const auto& [purpose, joules] : device.energy_ledger_j)
      sum[purpose] += joules;
  return sum;
}

}  // namespace

void answer_energy(const View& view, Metrics& answer) {
  answer.power_mean_w = mean_of(view.devices, &DeviceSummary::power_mean_w);
  answer.power_peak_w = maximum_of(view.devices, &DeviceSummary::power_peak_w);
  answer.power_kernel_peak_w = maximum_of(view.devices, &DeviceSummary::power_kernel_peak_w);
  answer.power_per_gpu_w = list_of(view.devices, &DeviceSummary::power_mean_w);
  answer.power_peak_per_gpu_w = list_of(view.devices, &DeviceSummary::power_peak_w);
  answer.energy_j = sum_of(view.devices, &DeviceSummary::energy_j);
  answer.energy_ledger_j = ledger(view.devices);
  if (!answer.step_time) return;
  answer.node_energy_j = node_energy(view, *answer.step_time);
  if (!answer.energy_j || *answer.energy_j <= 0) return;
  const double seconds = *answer.step_time / unit::s;
  if (answer.tokens_per_second)
    answer.joules_per_token = *answer.energy_j / (*answer.tokens_per_second * seconds);
  if (answer.samples_per_second && !is_inference(view.run))
    answer.samples_per_s_mj = *answer.samples_per_second / (*answer.energy_j / 1e6);
}

}  // namespace triplepoint::metrics
