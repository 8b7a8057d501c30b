// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::metrics {

using spec::ScoreMetric;

/// One value for each ScoreMetric.
using ScoreValues = std::array<std::optional<double>, spec::score_metric_count>;

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

/// Sequences of a step on a cluster: as many for each GPU as the suite's job has on its own.
int64_t batch_on(const spec::Job& wanted, const spec::Cluster&);

/// What is broken of the rules, each as a sentence: another job than the suite's, too short,
/// devices or readings missing.
std::vector<std::string> broken_rules(const spec::ScoreRules&, const spec::Job& wanted,
                                      const run::Run&);

/// The job of a suite that a run is meant to be, by its name: "dense-small-2" is "dense-small".
const spec::Job* meant_job(const spec::StudyPlan& suite, std::string_view run_name);

/// One run of a suite's job.
struct ScoredRun {
  std::string card;  // "hgx-h200 x 4", or "hgx-h200 x 4, measured"
  std::string job;
  ScoreValues values;
  std::vector<std::string> broken;  // rules
};
/// Nothing if the run is of no job of the suite.
std::optional<ScoredRun> score_run(const spec::StudyPlan& suite, const std::string& run_name,
                                   const run::Run&);

/// What a cluster reached in a job, or in a suite.
struct JobScore {
  std::string name;
  int64_t repeats = 0;
  ScoreValues values = {};  // medians of the repeats
  std::optional<double> score = {};
  std::vector<std::string> broken = {};
};
struct ScoreCard {
  std::string name;
  std::vector<JobScore> jobs;
  std::optional<double> score = {};  // over the jobs that have one
  std::size_t scored = 0;            // of the jobs
  bool is_official = false;          // all jobs, no rule broken
};

/// How much better one number is than the reference's; above 1 is better.
///
///   value / reference, or its inverse where less is better
///   2^((reference - value) / halves) where the metric has `halves`: quantities whose zero is
///   arbitrary (temperatures) or common (shares)
double factor(const spec::ScoreWeight&, double value, double reference);

/// Scores the card. Geometric means: of a job's factors with the suite's weights, then of its jobs.
///
///   job = exp( sum_i w_i ln f_i / sum_i w_i ),  score = exp( mean of ln job )
///
/// Every factor grows with what is better, so a card that is better everywhere never scores less;
/// the reference scores 1; the order of jobs does not matter. A job that lacks a number has none:
/// leaving out a bad number must not pay.
ScoreCard scored(ScoreCard, const ScoreCard& reference, const spec::ScoreRules&);

/// The median of several runs of one job; a number that one of them lacks is absent.
JobScore combine_repeats(const std::string& job, const std::vector<ScoreValues>& repeats);

/// Cards of a suite, of which the reference scores 1.
struct SuiteScore {
  std::string reference;
  std::vector<ScoreCard> cards;
};
/// The runs of each cluster as a card, in their order.
SuiteScore score_suite(const spec::StudyPlan& suite, const std::vector<ScoredRun>&);

Json score_json(const SuiteScore&);

}  // namespace triplepoint::metrics
