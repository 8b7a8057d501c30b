// SPDX-License-Identifier: Apache-2.0
// What a run reached after its warm-up, and which rules of the suite it broke.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/run/series_index.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

constexpr std::size_t fewest_steps = 2, fewest_steps_for_drift = 8;

std::size_t index_of(ScoreMetric metric) {
  return static_cast<std::size_t>(metric);
}

double mean_time(const std::vector<run::StepRecord>& steps, std::size_t from, std::size_t count) {
  double sum = 0;
  for (std::size_t i = from; i < from + count; ++i)
    sum += (steps[i].end - steps[i].begin) / unit::s;
  return sum / static_cast<double>(count);
}

double variation(const std::vector<run::StepRecord>& steps) {
  const double mean = mean_time(steps, 0, steps.size());
  double squares = 0;
  for (const run::StepRecord& step : steps) {
    const double off = (step.end - step.begin) / unit::s - mean;
    squares += off * off;
  }
  return std::sqrt(squares / static_cast<double>(steps.size() - 1)) / mean;
}

double drift(const std::vector<run::StepRecord>& steps) {
  const std::size_t quarter = steps.size() / 4;
  return std::abs(mean_time(steps, steps.size() - quarter, quarter) / mean_time(steps, 0, quarter) -
                  1);
}

/// The same run, of which only these steps are known and what the series show of them.
run::Run part_of(const run::Run& whole, const ScoredWindow& window) {
  run::Run part;
  part.manifest = whole.manifest;
  part.devices = whole.devices;
  part.steps = window.steps;
  part.series = whole.series;
  return part;
}

/// A simulated run knows the share itself, a recording the reasons.
std::optional<double> throttled_share(const run::Run& run, const run::StepRecord& first,
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
  return sum / static_cast<double>(run.devices.size());
}

/// Hottest less coolest; only if every device knows.
std::optional<double> spread_of(const std::vector<double>& temperatures) {
  if (temperatures.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(temperatures.begin(), temperatures.end());
  if (std::any_of(temperatures.begin(), temperatures.end(),
                  [](double t) { return !std::isfinite(t); }))
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

void check_job(std::vector<std::string>& broken, const SuiteJob& wanted, const spec::Job& job) {
  if (wanted.model.sequence_length != job.model.sequence_length)
    broken.push_back(fmt::format("sequence length is {}, not {}", job.model.sequence_length,
                                 wanted.model.sequence_length));
  spec::Model model = job.model;
  model.sequence_length = wanted.model.sequence_length;
  if (!same_model(model, wanted.model))
    broken.push_back(fmt::format("the model is not {} (its sizes differ)", wanted.model.name));
  const int64_t batch = wanted.sequences_per_gpu * job.cluster.num_gpus();
  if (job.plan.global_batch_size != batch)
    broken.push_back(fmt::format("a step has {} sequences, not {} ({} a GPU)",
                                 job.plan.global_batch_size, batch, wanted.sequences_per_gpu));
  if (job.plan.precision != wanted.precision)
    broken.push_back(fmt::format("precision is {}, not {}", spec::name_of(job.plan.precision),
                                 spec::name_of(wanted.precision)));
  if (job.task != spec::Task::pretrain || job.plan.lora)
    broken.emplace_back("not all weights are trained");
  if (job.records) broken.emplace_back("records do not fill their sequences");
  if (job.plan.packed_length) broken.emplace_back("sequences are packed");
}

}  // namespace

Seconds ScoredWindow::duration() const {
  return steps.empty() ? Seconds() : steps.back().end - steps.front().begin;
}

ScoredWindow scored_window(const run::Run& run, Seconds warm_up) {
  ScoredWindow window;
  if (run.steps.empty()) return window;
  const Instant first = run.steps.front().begin;
  for (const run::StepRecord& step : run.steps)
    if (step.begin - first >= warm_up) window.steps.push_back(step);
  return window;
}

ScoreValues measure_for_score(const run::Run& run, Seconds warm_up) {
  ScoreValues values;
  const auto put = [&](ScoreMetric metric, std::optional<double> value) {
    values[index_of(metric)] = value;
  };
  const ScoredWindow window = scored_window(run, warm_up);
  if (window.steps.size() < fewest_steps) return values;
  const Metrics part = measure(part_of(run, window));
  put(ScoreMetric::tokens_per_second_per_gpu, part.tokens_per_second_per_gpu);
  put(ScoreMetric::joules_per_token, part.joules_per_token);
  put(ScoreMetric::power_peak_w, peak_power(run, part));
  put(ScoreMetric::temperature_peak_c, part.temperature_peak_c);
  put(ScoreMetric::throttled_share,
      throttled_share(run, window.steps.front(), window.steps.back()));
  put(ScoreMetric::thermal_spread_k, spread_of(part.temperature_per_gpu_c));
  put(ScoreMetric::step_time_variation, variation(window.steps));
  if (window.steps.size() >= fewest_steps_for_drift)
    put(ScoreMetric::step_time_drift, drift(window.steps));
  return values;
}

std::vector<std::string> broken_rules(const Suite& suite, const SuiteJob& wanted,
                                      const run::Run& run) {
  std::vector<std::string> broken;
  if (run.manifest.job)
    check_job(broken, wanted, *run.manifest.job);
  else
    broken.emplace_back("the run does not say which job it is");
  const Seconds played = scored_window(run, suite.warm_up).duration();
  // The last step ends when it ends: what is missing of a whole duration is less than a step.
  const Seconds step =
      run.steps.empty() ? Seconds() : run.steps.back().end - run.steps.back().begin;
  if (played + step + step < suite.duration)
    broken.push_back(fmt::format("{:.0f} s are left after {:.0f} s of warm-up, not {:.0f} s",
                                 played / unit::s, suite.warm_up / unit::s,
                                 suite.duration / unit::s));
  const ScoreValues values = measure_for_score(run, suite.warm_up);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i] && suite.weights[i].weight > 0 && played > Seconds())
      broken.push_back(
          fmt::format("{} is not known of every GPU", info_of(static_cast<ScoreMetric>(i)).key));
  return broken;
}

JobResult combine_repeats(const SuiteJob& job, const std::vector<ScoreValues>& repeats) {
  JobResult result;
  result.name = job.name;
  result.verdict = repeats.empty() ? "missing" : "ok";
  result.repeats = static_cast<int64_t>(repeats.size());
  for (std::size_t m = 0; m < score_metric_count; ++m) {
    std::vector<double> known;
    for (const ScoreValues& values : repeats)
      if (values[m]) known.push_back(*values[m]);
    if (known.empty() || known.size() < repeats.size()) continue;
    std::sort(known.begin(), known.end());
    const std::size_t half = known.size() / 2;
    const double median =
        known.size() % 2 == 1 ? known[half] : 0.5 * (known[half - 1] + known[half]);
    result.values[m] = median;
    if (m == index_of(ScoreMetric::tokens_per_second_per_gpu) && known.size() > 1)
      result.repeat_spread = (known.back() - known.front()) / median;
  }
  return result;
}

}  // namespace triplepoint::metrics
