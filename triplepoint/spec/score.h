// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {

/// What a score weighs of a job; metrics/economics/score_card.h says how each is measured.
enum class ScoreMetric {
  tokens_per_second_per_gpu,
  joules_per_token,
  power_peak_w,
  temperature_peak_c,
  throttled_share,
  thermal_spread_k,
  step_time_variation,
  step_time_drift
};
inline constexpr std::size_t score_metric_count = 8;

/// How a metric enters the score.
struct ScoreWeight {
  ScoreMetric name = ScoreMetric::tokens_per_second_per_gpu;
  double weight = 0;
  std::optional<double> halves;  // a difference of this halves the factor; absent: the ratio counts
};

/// What scores 1: the numbers of a job on the cluster that the suite names.
struct ScoreReference {
  std::string job;
  std::vector<double> values;  // one for each metric, in the order in which triplepoint lists them
};

/// What makes a study a suite, over which clusters are compared: each job keeps its model, its
/// precision and its sequences per GPU on any cluster, with any plan.
struct ScoreRules {
  Seconds warm_up;      // of each run, which does not count
  Seconds duration;     // at least, after the warm-up
  int64_t repeats = 1;  // of which the median counts
  std::vector<ScoreWeight> metric;
  std::vector<ScoreReference> reference;  // default: that cluster if it is scored, else the first
};

}  // namespace triplepoint::spec
