// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::metrics {

/// What a score card says of one job. See score_card.h for how each is measured.
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
struct ScoreMetricInfo {
  std::string_view key, title, unit;
  bool more_is_better = false;
  double scale = 1;  // people read the value times this
};
const ScoreMetricInfo& info_of(ScoreMetric);
std::optional<ScoreMetric> score_metric_named(std::string_view key);

/// How a metric enters the score; see factor() in score_card.h.
struct ScoreWeight {
  double weight = 0;
  std::optional<double> halves;  // absent: the ratio counts
};

/// One job of a suite: what is fixed. Everything else of the plan is free.
struct SuiteJob {
  std::string name;
  spec::Model model;
  int64_t sequences_per_gpu = 1;  // of a step
  spec::Precision precision = spec::Precision::bf16;
};

/// A versioned set of jobs with rules, over which clusters are compared.
struct Suite {
  std::string name, title, stack;
  int64_t version = 1, repeats = 1;
  Seconds warm_up, duration;
  std::vector<SuiteJob> jobs;
  std::array<ScoreWeight, score_metric_count> weights;

  std::string label() const;  // "training-v1"
};

/// One of data/suites, by name, or a file.
Result<Suite> load_suite(const spec::Library&, std::string_view name_or_path);
Result<Suite> parse_suite(const spec::Library&, std::string_view text, const std::string& file);
std::vector<std::string> list_suites(const spec::Library&);

/// The job as the suite asks for it on a cluster; its plan has a size of one everywhere and waits
/// to be chosen.
spec::Job job_for(const SuiteJob&, const spec::Cluster&, const spec::Stack&);

}  // namespace triplepoint::metrics
