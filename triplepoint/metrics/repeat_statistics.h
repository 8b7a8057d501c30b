// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// Which steps of a measured run count.
struct Protocol {
  std::optional<int64_t> warmup;  // steps to drop; absent: as many as warmup_steps() finds
  int64_t measured = 10;          // of those that follow, at most; fewer if there are no more
};

/// How many values at the beginning belong to the warm-up: the least d <= n/2 whose
///
///   e_d = sum over i >= d of (x_i - mean_d)^2 / (n - d)^2
///
/// is within twice the smallest of all, mean_d over the values kept. Less of a warm-up lowers the
/// sum, fewer values raise it; the factor keeps noise from taking steps away (e of plain noise
/// wanders by some ten percent). Holds for one warm-up at the beginning; says 0 of fewer than 4
/// values.
/// Source: K. P. White, "An effective truncation heuristic for bias reduction in simulation
/// output", Simulation 69 (1997) 323 (the rule known as MSER); the factor is ours.
int64_t warmup_steps(std::span<const double> values);

/// The steps that count. Empty if the warm-up takes all.
std::vector<run::StepRecord> measured_steps(const std::vector<run::StepRecord>&, const Protocol&);
/// The run with those steps only, so that measure() answers for them. A run without steps stays as
/// it is.
run::Run with_measured_steps(run::Run, const Protocol&);

/// A mean and how far it may be off: the true mean lies in mean +- half_width with the confidence
/// asked for.
struct Interval {
  double mean = 0;
  double standard_deviation = 0;     // of one value
  std::optional<double> half_width;  // absent for a single value
  int64_t count = 0;
};

/// The t with P(T <= t) = p of Student's distribution; 0 < p < 1, freedom > 0.
/// By bisection of the regularized incomplete beta function, to 1e-12.
/// Source: Abramowitz and Stegun, 26.5.8 (continued fraction), 26.7.1.
double student_t_quantile(double p, double freedom);

/// Of repeats that know nothing of each other (runs of the same job):
///
///   half_width = t((1 + confidence) / 2, n - 1) s / sqrt(n),   s^2 = sum (x - mean)^2 / (n - 1)
///
/// Holds for values that are about normal; means over steps are. Values must not be empty.
Interval interval_of_repeats(std::span<const double> values, double confidence = 0.95);

/// Of neighbours in time (steps of one run), which resemble each other: n becomes
/// n (1 - r) / (1 + r), r the correlation of neighbours where it is positive, so that ten steps
/// that drift together do not pass for ten witnesses. What differs from run to run is not in it.
/// Source: the effective size of a first-order autoregressive sample, H. von Storch, F. Zwiers,
/// "Statistical Analysis in Climate Research", section 6.6.
Interval interval_of_steps(std::span<const double> values, double confidence = 0.95);

/// b - a, with the half width of Welch's test for unequal variances.
/// Source: B. L. Welch, Biometrika 34 (1947) 28.
struct MeanDifference {
  double difference = 0;
  std::optional<double> half_width;  // absent if one side is a single value
  /// Whether it is more than chance, at the confidence asked for; absent where that is unknown.
  std::optional<bool> is_significant() const;
};
MeanDifference difference_of_repeats(std::span<const double> a, std::span<const double> b,
                                     double confidence = 0.95);

/// A number of repeated runs.
struct RepeatedMetric {
  std::string key;  // as in the results: step_time_s, energy_j, power_mean_w ...
  Interval interval;
};
/// Of the metrics that all repeats know: step time, speed, energy, power, temperature, clock.
std::vector<RepeatedMetric> repeat_statistics(std::span<const Metrics> repeats,
                                              double confidence = 0.95);

}  // namespace triplepoint::metrics
