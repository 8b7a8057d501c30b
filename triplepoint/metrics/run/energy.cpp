// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/view.h"

// How fast is a step, and what share of the chips' peak is that?
//
//   mfu = model flops / (step time * devices * dense peak of the data type); hfu counts recomputed
//   flops too, which only training has.
// Source: Chowdhery et al. 2022 (PaLM), appendix B; Korthikanti et al. 2022, section 6.3.

// How much power and energy, and what is it spent on?
//
//   energy_j         = one step, all GPUs, device scope
//   joules_per_token = energy of the step / tokens of the step: the site's where the job states its
//                      PUE, else the GPUs'
//   samples_per_s_mj = samples per second / energy_j in MJ; of training only
// Source of the last: "Characterizing the Efficiency of Distributed Training", MICRO 2025,
// figure 4.

namespace triplepoint::metrics {
namespace {

struct StepTotals {
  Seconds time;
  double samples = 0, tokens = 0;
};

StepTotals total(const std::vector<run::StepRecord>& steps) {
  StepTotals sum;
  for (const run::StepRecord& step : steps) {
    sum.time += step.end - step.begin;
    sum.samples += as_real(step.samples);
    sum.tokens += as_real(step.tokens);
  }
  return sum;
}

void answer_utilization(const run::Run& run, double devices, Metrics& answer) {
  const Seconds time = *answer.step_time;
  if (run.model_flops && devices > 0)
    answer.model_tflops_per_gpu = *run.model_flops / time / devices / (unit::TFLOP / unit::s);
  if (!run.peak_flops || devices == 0 || *run.peak_flops <= FlopsPerSecond()) return;
  const Flops possible = *run.peak_flops * time * devices;
  if (run.model_flops) answer.mfu = *run.model_flops / possible;
  if (run.hardware_flops && !is_inference(run)) answer.hfu = *run.hardware_flops / possible;
}

using run::DeviceSummary;

/// Of all nodes; nothing where one with the signal does not know, or none has it.
std::optional<double> sum_of_nodes(const View& view, std::string_view signal, auto value) {
  std::optional<double> sum;
  for (const run::Series& series : view.run.series) {
    if (!series.of_node || series.signal != signal || !view.window) continue;
    const std::optional<double> one = value(series, view.window->begin, view.window->end);
    if (!one) return std::nullopt;
    sum = sum.value_or(0) + *one;
  }
  return sum;
}

/// One step of everything that draws from the nodes' supplies, metered or counted.
std::optional<double> node_energy(const View& view, Seconds step_time) {
  const auto mean = [](const auto&... window) -> std::optional<double> {
    const auto all = run::statistics(window...);
    return all.count > 0 ? std::optional(all.time_weighted_mean) : std::nullopt;
  };
  if (const auto watts = sum_of_nodes(view, "node_power_w", mean))
    return *watts * (step_time / unit::s);
  const auto joules = sum_of_nodes(view, "node_energy_j", run::counter_difference);
  return joules ? std::optional(*joules / view.num_steps()) : std::nullopt;
}

std::map<std::string, double> ledger(const std::vector<DeviceSummary>& devices) {
  std::map<std::string, double> sum;
  for (const DeviceSummary& device : devices)
    for (const auto& [purpose, joules] : device.energy_ledger_j)
      sum[std::string(purpose)] += joules;
  return sum;
}

}  // namespace

void answer_speed(const View& view, Metrics& answer) {
  const StepTotals totals = total(view.steps);
  if (totals.time <= Seconds()) return;
  const auto devices = as_real(view.run.devices.size());
  answer.step_time = totals.time / view.num_steps();
  // A decoding step gives each sequence one token; none is done after it.
  const bool whole = !view.run.manifest.job || view.run.manifest.job->task != spec::Task::decode;
  if (totals.samples > 0 && whole)
    answer.samples_per_second = totals.samples / (totals.time / unit::s);
  if (totals.tokens > 0) answer.tokens_per_second = totals.tokens / (totals.time / unit::s);
  if (answer.tokens_per_second && devices > 0)
    answer.tokens_per_second_per_gpu = *answer.tokens_per_second / devices;
  answer_utilization(view.run, devices, answer);
}

void answer_energy(const View& view, Metrics& answer) {
  answer.power_mean_w = mean_of(view.devices, &DeviceSummary::power_mean_w);
  // The sensor of one device or another sees more than a typical one, so a simulated run says the
  // highest reading of all beside the readings of each.
  answer.power_peak_w = view.run.numbers.power_peak_w;
  if (!answer.power_peak_w)
    answer.power_peak_w = maximum_of(view.devices, &DeviceSummary::power_peak_w);
  answer.power_kernel_peak_w = maximum_of(view.devices, &DeviceSummary::power_kernel_peak_w);
  answer.power_per_gpu_w = list_of(view.devices, &DeviceSummary::power_mean_w);
  answer.power_peak_per_gpu_w = list_of(view.devices, &DeviceSummary::power_peak_w);
  answer.energy_j = total_of(view.devices, &DeviceSummary::energy_j);
  answer.energy_ledger_j = ledger(view.devices);
  if (!answer.step_time) return;
  answer.node_energy_j = node_energy(view, *answer.step_time);
  const std::optional<spec::Job>& job = view.run.manifest.job;
  if (answer.node_energy_j && job && job->environment.pue)
    answer.site_energy_j = *answer.node_energy_j * *job->environment.pue;
  if (!answer.energy_j || *answer.energy_j <= 0) return;
  if (answer.tokens_per_second)
    count_energy_at(answer.site_energy_j ? EnergyScope::site : EnergyScope::gpu, answer);
  if (answer.samples_per_second && !is_inference(view.run))
    answer.samples_per_s_mj = *answer.samples_per_second / (*answer.energy_j / 1e6);
}

std::string_view scope_text(EnergyScope scope) {
  constexpr std::string_view texts[] = {"of the GPUs", "of the nodes", "at the site"};
  return texts[as_size(scope)];
}

void count_energy_at(EnergyScope scope, Metrics& metrics) {
  using enum EnergyScope;
  if (scope == site && !metrics.site_energy_j) scope = node;
  if (scope == node && !metrics.node_energy_j) scope = gpu;
  const auto& joules = scope == site   ? metrics.site_energy_j
                       : scope == node ? metrics.node_energy_j
                                       : metrics.energy_j;
  metrics.energy_scope = scope;
  if (!joules || !metrics.step_time || !metrics.tokens_per_second) return;
  metrics.joules_per_token =
      *joules / (*metrics.tokens_per_second * (*metrics.step_time / unit::s));
}

}  // namespace triplepoint::metrics
