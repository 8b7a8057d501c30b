// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/economics/suite.h"

namespace triplepoint::metrics {

using ScoreValues = std::array<std::optional<double>, score_metric_count>;

/// The part of a run that counts: whole steps after the warm-up.
struct ScoredWindow {
  std::vector<run::StepRecord> steps;
  Seconds duration() const;
};
ScoredWindow scored_window(const run::Run&, Seconds warm_up);

/// What one run reached after its warm-up.
///
///   tokens_per_second_per_gpu  tokens of the steps / time / devices
///   joules_per_token           energy of all devices in that time / those tokens
///   power_peak_w               highest reading of any device
///   temperature_peak_c         highest reading of any die
///   throttled_share            share of time below the asked-for clock, mean over devices
///   thermal_spread_k           hottest less coolest device, means over the time
///   step_time_variation        standard deviation of step times / their mean
///   step_time_drift            |mean of the last quarter of the steps / of the first - 1|
///
/// Absent where the run does not know it of every device, or has too few steps (2; 8 for drift).
ScoreValues measure_for_score(const run::Run&, Seconds warm_up);

/// What is broken of the suite's rules, each as a sentence: another model, sequence, batch or
/// precision, too short, not trained in full, readings missing.
std::vector<std::string> broken_rules(const Suite&, const SuiteJob&, const run::Run&);

struct JobResult {
  std::string name;
  std::string verdict;  // "ok", "oom", "missing"
  std::string plan;     // in words
  int64_t repeats = 0;
  ScoreValues values;                   // median of the repeats
  std::optional<double> repeat_spread;  // of tokens/s: (most - least) / median
  std::vector<std::string> broken;      // rules
};
/// The median of several runs of one job.
JobResult combine_repeats(const SuiteJob&, const std::vector<ScoreValues>& repeats);

/// What a cluster reached in a suite.
struct ScoreCard {
  std::string suite;  // label
  std::string name;   // of the card: "hgx-h200 x 4"
  std::string gpu;
  int64_t num_gpus = 0;
  std::string origin;  // "simulated", "measured"
  std::string source;  // of a published card: how it came about
  double duration_s = 0;
  std::vector<JobResult> jobs;
};

/// How much better one number is than the reference's; above 1 is better.
///
///   value / reference, or its inverse where less is better
///   2^((reference - value) / halves) where the metric has `halves`: quantities whose zero is
///   arbitrary (temperatures) or common (shares)
double factor(const ScoreWeight&, ScoreMetric, double value, double reference);

struct CardScore {
  std::vector<std::optional<double>> jobs;  // in the card's order
  std::optional<double> score;              // over the jobs that have one
  std::size_t scored = 0, wanted = 0;       // jobs of the suite
  bool is_official = false;                 // all jobs, no rule broken
};
/// Geometric means: of a job's factors with the suite's weights, then of its jobs.
///
///   job = exp( sum_i w_i ln f_i / sum_i w_i ),  score = exp( mean of ln job )
///
/// Every factor grows with what is better, so a card that is better everywhere never scores less;
/// the reference scores 1; the order of jobs does not matter. A job that lacks a number has none:
/// leaving out a bad number must not pay.
CardScore score(const ScoreCard&, const ScoreCard& reference, const Suite&);

Json card_json(const ScoreCard&, const CardScore*);
Result<ScoreCard> card_from_json(const Json&, const std::string& file);

}  // namespace triplepoint::metrics
