// SPDX-License-Identifier: Apache-2.0
// What a run reached after its warm-up, and which rules of the suite it broke.
#include <algorithm>
#include <cmath>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

constexpr std::size_t fewest_steps = 2, fewest_steps_for_drift = 8;

std::size_t index_of(ScoreMetric metric) {
  return as_size(metric);
}

double mean_time(const std::vector<run::StepRecord>& steps, std::size_t from, std::size_t count) {
  double sum = 0;
  for (std::size_t i = from; i < from + count; ++i)
    sum += (steps[i].end - steps[i].begin) / unit::s;
  return sum / as_real(count);
}

double variation(const std::vector<run::StepRecord>& steps) {
  const double mean = mean_time(steps, 0, steps.size());
  double squares = 0;
  for (const run::StepRecord& step : steps) {
    const double off = (step.end - step.begin) / unit::s - mean;
    squares += off * off;
  }
  return std::sqrt(squares / as_real(steps.size() - 1)) / mean;
}

double drift(const std::vector<run::StepRecord>& steps) {
  const std::size_t quarter = steps.size() / 4;
  return std::abs(mean_time(steps, steps.size() - quarter, quarter) / mean_time(steps, 0, quarter) -
                  1);
}

/// Whole steps after the warm-up: the part of a run that counts.
std::vector<run::StepRecord> scored_steps(const run::Run& run, Seconds warm_up) {
  return filtered(run.steps, [&](const run::StepRecord& step) {
    return step.begin - run.steps.front().begin >= warm_up;
  });
}

/// The same run, of which only these steps are known and what the series show of them.
run::Run run_of_steps(const run::Run& whole, const std::vector<run::StepRecord>& steps) {
  run::Run part;
  part.manifest = whole.manifest;
  part.devices = whole.devices;
  part.steps = steps;
  part.series = whole.series;
  return part;
}

/// A simulated run knows the share itself, a recording the reasons.
std::optional<double> throttled_share_of(const run::Run& run, const run::StepRecord& first,
                                         const run::StepRecord& last) {
  constexpr uint32_t no_throttling = 1U | 2U | 256U;  // idle, application and display clocks
  double sum = 0;
  const run::SeriesIndex series(run);
  for (const run::Device& device : run.devices) {
    const run::Series* share = series.find("throttled_share", device.index);
    const run::Series* reasons = series.find("throttle_reasons", device.index);
    std::optional<double> known;
    if (share != nullptr) known = run::statistics(*share, first.begin, last.end).time_weighted_mean;
    if (!known && reasons != nullptr)
      known = run::share_of_time(*reasons, ~no_throttling, first.begin, last.end);
    if (!known) return std::nullopt;
    sum += *known;
  }
  if (run.devices.empty()) return std::nullopt;
  return sum / as_real(run.devices.size());
}

/// Hottest less coolest; only if every device knows.
std::optional<double> spread_of(const std::vector<double>& temperatures) {
  if (temperatures.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(temperatures.begin(), temperatures.end());
  if (std::ranges::any_of(temperatures, [](double t) { return !std::isfinite(t); }))
    return std::nullopt;
  return *high - *low;
}

/// A driver's window is shorter than the means of a simulated series; its summaries know both.
std::optional<double> peak_power(const run::Run& run, const Metrics& part) {
  std::optional<double> peak = part.power_peak_w;
  for (const run::DeviceSummary& device : run.summaries)
    if (device.power_peak_w) peak = std::max(peak.value_or(0), *device.power_peak_w);
  return peak;
}

bool same_model(spec::Model a, spec::Model b) {
  a.name = b.name;
  a.published_parameters = b.published_parameters;
  a.published_active_parameters = b.published_active_parameters;
  a.dropout = b.dropout;  // no part of the work that is counted
  if (a.moe && b.moe) {   // how an implementation runs its experts
    a.moe->grouped_gemm = b.moe->grouped_gemm;
    a.moe->load_imbalance = b.moe->load_imbalance;
  }
  return a == b;
}

void check_job(std::vector<std::string>& broken, const spec::Job& wanted, const spec::Job& job) {
  if (wanted.model.sequence_length != job.model.sequence_length)
    broken.push_back(fmt::format("sequence length is {}, not {}", job.model.sequence_length,
                                 wanted.model.sequence_length));
  spec::Model model = job.model;
  model.sequence_length = wanted.model.sequence_length;
  if (!same_model(model, wanted.model))
    broken.push_back(fmt::format("the model is not {} (its sizes differ)", wanted.model.name));
  const int64_t batch = batch_on(wanted, job.cluster);
  if (job.plan.global_batch_size != batch)
    broken.push_back(fmt::format("a step has {} sequences, not {} (as many a GPU as the suite's)",
                                 job.plan.global_batch_size, batch));
  if (job.plan.precision != wanted.plan.precision)
    broken.push_back(fmt::format("precision is {}, not {}", spec::name_of(job.plan.precision),
                                 spec::name_of(wanted.plan.precision)));
  if (job.task != spec::Task::pretrain || job.plan.lora)
    broken.emplace_back("not all weights are trained");
  if (job.records) broken.emplace_back("records do not fill their sequences");
  if (job.plan.packed_length) broken.emplace_back("sequences are packed");
}

}  // namespace

int64_t batch_on(const spec::Job& wanted, const spec::Cluster& cluster) {
  return wanted.plan.global_batch_size / wanted.cluster.num_gpus() * cluster.num_gpus();
}

ScoreValues measure_for_score(const run::Run& run, Seconds warm_up) {
  ScoreValues values;
  const auto put = [&](ScoreMetric metric, std::optional<double> value) {
    values[index_of(metric)] = value;
  };
  const std::vector<run::StepRecord> steps = scored_steps(run, warm_up);
  if (steps.size() < fewest_steps) return values;
  Metrics part = measure(run_of_steps(run, steps));
  count_energy_at(EnergyScope::gpu, part);  // scores are of the devices
  put(ScoreMetric::tokens_per_second_per_gpu, part.tokens_per_second_per_gpu);
  put(ScoreMetric::joules_per_token, part.joules_per_token);
  put(ScoreMetric::power_peak_w, peak_power(run, part));
  put(ScoreMetric::temperature_peak_c, part.temperature_peak_c);
  put(ScoreMetric::throttled_share, throttled_share_of(run, steps.front(), steps.back()));
  put(ScoreMetric::thermal_spread_k, spread_of(part.temperature_per_gpu_c));
  put(ScoreMetric::step_time_variation, variation(steps));
  if (steps.size() >= fewest_steps_for_drift) put(ScoreMetric::step_time_drift, drift(steps));
  return values;
}

std::vector<std::string> broken_rules(const spec::ScoreRules& rules, const spec::Job& wanted,
                                      const run::Run& run) {
  if (run.steps.empty() || !run::has_trained(run))
    return {fmt::format("it did no step ({})", run::verdict_of(run))};
  std::vector<std::string> broken;
  const spec::Job& job = *run.manifest.job;
  check_job(broken, wanted, job);
  if (static_cast<int64_t>(run.devices.size()) != job.world_size())
    broken.push_back(fmt::format("{} devices were watched, the job has {}", run.devices.size(),
                                 job.world_size()));
  const std::vector<run::StepRecord> steps = scored_steps(run, rules.warm_up);
  const Seconds scored = steps.empty() ? Seconds() : steps.back().end - steps.front().begin;
  // The last step ends when it ends: what is missing of a whole duration is less than a step.
  const Seconds step = run.steps.back().end - run.steps.back().begin;
  if (scored + step + step < rules.duration)
    broken.push_back(fmt::format("{:.0f} s are left after {:.0f} s of warm-up, not {:.0f} s",
                                 scored / unit::s, rules.warm_up / unit::s,
                                 rules.duration / unit::s));
  const ScoreValues values = measure_for_score(run, rules.warm_up);
  for (const spec::ScoreWeight& weight : rules.metric)
    if (!values[index_of(weight.name)] && weight.weight > 0 && !steps.empty())
      broken.push_back(fmt::format("{} is not known of every GPU", spec::enum_name(weight.name)));
  return broken;
}

const spec::Job* meant_job(const spec::StudyPlan& suite, std::string_view run_name) {
  for (const auto& [wanted, diagnoses] : suite.jobs)
    if (run_name == wanted.name || run_name.starts_with(wanted.name + "-") ||
        run_name.starts_with(wanted.name + "."))
      return &wanted;
  return nullptr;
}

}  // namespace triplepoint::metrics
