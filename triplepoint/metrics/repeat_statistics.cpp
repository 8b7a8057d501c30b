// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/repeat_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "triplepoint/base/expect.h"

namespace triplepoint::metrics {

namespace {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double sum_of_squares(std::span<const double> values, double around) {
  double sum = 0;
  for (const double value : values)
    sum += (value - around) * (value - around);
  return sum;
}

/// Abramowitz and Stegun 26.5.8, evaluated by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < tiny ? tiny : d);
  double value = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      c = 1 + term / c;
      d = 1 / (std::abs(d) < tiny ? tiny : d);
      c = std::abs(c) < tiny ? tiny : c;
      change = c * d;
      value *= change;
    }
    if (std::abs(change - 1) < 1e-15) break;
  }
  return value;
}

/// Regularized incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double log_front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  const double front = std::exp(log_front);
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// P(|T| > t) for t >= 0.
double two_tails(double t, double freedom) {
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

/// Correlation of neighbours; 0 where nothing varies.
double neighbour_correlation(std::span<const double> values) {
  const double centre = mean(values);
  const double variance = sum_of_squares(values, centre);
  if (variance <= 0) return 0;
  double sum = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    sum += (values[i] - centre) * (values[i - 1] - centre);
  return sum / variance;
}

Interval interval_of(std::span<const double> values, double effective_count, double confidence) {
  TPT_EXPECT(!values.empty());
  TPT_EXPECT(confidence > 0 && confidence < 1);
  Interval interval{.mean = mean(values), .count = static_cast<int64_t>(values.size())};
  if (values.size() < 2) return interval;
  interval.standard_deviation =
      std::sqrt(sum_of_squares(values, interval.mean) / (static_cast<double>(values.size()) - 1));
  const double count = std::max(effective_count, 2.0);  // or no interval would be wide enough
  interval.half_width = student_t_quantile((1 + confidence) / 2, count - 1) *
                        interval.standard_deviation / std::sqrt(count);
  return interval;
}

std::optional<double> seconds(const std::optional<Seconds>& time) {
  if (!time) return std::nullopt;
  return *time / unit::s;
}

struct Question {
  const char* key;
  std::optional<double> (*ask)(const Metrics&);
};
using M = const Metrics&;
constexpr Question questions[] = {
    {"step_time_s", [](M m) { return seconds(m.step_time); }},
    {"tokens_per_second", [](M m) { return m.tokens_per_second; }},
    {"samples_per_second", [](M m) { return m.samples_per_second; }},
    {"mfu", [](M m) { return m.mfu; }},
    {"energy_j", [](M m) { return m.energy_j; }},
    {"joules_per_token", [](M m) { return m.joules_per_token; }},
    {"node_energy_j", [](M m) { return m.node_energy_j; }},
    {"power_mean_w", [](M m) { return m.power_mean_w; }},
    {"power_peak_w", [](M m) { return m.power_peak_w; }},
    {"temperature_mean_c", [](M m) { return m.temperature_mean_c; }},
    {"temperature_peak_c", [](M m) { return m.temperature_peak_c; }},
    {"sm_clock_mean_mhz", [](M m) { return m.sm_clock_mean_mhz; }},
};

}  // namespace

int64_t warmup_steps(std::span<const double> values) {
  if (values.size() < 4) return 0;
  std::vector<double> errors;
  for (std::size_t drop = 0; drop <= values.size() / 2; ++drop) {
    const std::span<const double> kept = values.subspan(drop);
    const auto count = static_cast<double>(kept.size());
    errors.push_back(sum_of_squares(kept, mean(kept)) / (count * count));
  }
  // Of equal values only rounding is left.
  const double rounding = 1e-24 * mean(values) * mean(values);
  const double enough = 2 * *std::min_element(errors.begin(), errors.end()) + rounding;
  const auto first =
      std::find_if(errors.begin(), errors.end(), [&](double error) { return error <= enough; });
  return first - errors.begin();
}

std::vector<run::StepRecord> measured_steps(const std::vector<run::StepRecord>& steps,
                                            const Protocol& protocol) {
  std::vector<double> durations;
  durations.reserve(steps.size());
  for (const run::StepRecord& step : steps)
    durations.push_back((step.end - step.begin) / unit::s);
  const auto count = static_cast<int64_t>(steps.size());
  const int64_t begin =
      std::clamp<int64_t>(protocol.warmup ? *protocol.warmup : warmup_steps(durations), 0, count);
  const int64_t end = begin + std::clamp<int64_t>(protocol.measured, 0, count - begin);
  return {steps.begin() + begin, steps.begin() + end};
}

run::Run with_measured_steps(run::Run run, const Protocol& protocol) {
  if (!run.steps.empty()) run.steps = measured_steps(run.steps, protocol);
  return run;
}

double student_t_quantile(double p, double freedom) {
  TPT_EXPECT(p > 0 && p < 1);
  TPT_EXPECT(freedom > 0);
  if (p < 0.5) return -student_t_quantile(1 - p, freedom);
  double low = 0, high = 1;
  while (two_tails(high, freedom) > 2 * (1 - p) && high < 1e15)
    high *= 2;
  while (high - low > 1e-12 * std::max(1.0, high)) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (two_tails(middle, freedom) > 2 * (1 - p) ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval interval_of_repeats(std::span<const double> values, double confidence) {
  return interval_of(values, static_cast<double>(values.size()), confidence);
}

Interval interval_of_steps(std::span<const double> values, double confidence) {
  const auto count = static_cast<double>(values.size());
  if (values.size() < 3) return interval_of(values, count, confidence);
  const double alike = std::clamp(neighbour_correlation(values), 0.0, 0.99);
  return interval_of(values, count * (1 - alike) / (1 + alike), confidence);
}

std::optional<bool> MeanDifference::is_significant() const {
  if (!half_width) return std::nullopt;
  return std::abs(difference) > *half_width;
}

MeanDifference difference_of_repeats(std::span<const double> a, std::span<const double> b,
                                     double confidence) {
  const Interval of_a = interval_of_repeats(a, confidence),
                 of_b = interval_of_repeats(b, confidence);
  MeanDifference result{.difference = of_b.mean - of_a.mean};
  if (a.size() < 2 || b.size() < 2) return result;
  const auto error = [](const Interval& interval) {
    return interval.standard_deviation * interval.standard_deviation /
           static_cast<double>(interval.count);
  };
  const double in_a = error(of_a), in_b = error(of_b), sum = in_a + in_b;
  if (sum <= 0) {
    result.half_width = 0;
    return result;
  }
  const double freedom = sum * sum /
                         (in_a * in_a / static_cast<double>(of_a.count - 1) +
                          in_b * in_b / static_cast<double>(of_b.count - 1));
  result.half_width = student_t_quantile((1 + confidence) / 2, freedom) * std::sqrt(sum);
  return result;
}

std::vector<RepeatedMetric> repeat_statistics(std::span<const Metrics> repeats, double confidence) {
  std::vector<RepeatedMetric> answers;
  for (const Question& question : questions) {
    std::vector<double> values;
    for (const Metrics& repeat : repeats) {
      if (const auto value = question.ask(repeat)) values.push_back(*value);
    }
    if (!values.empty() && values.size() == repeats.size())
      answers.push_back({question.key, interval_of_repeats(values, confidence)});
  }
  return answers;
}

}  // namespace triplepoint::metrics
