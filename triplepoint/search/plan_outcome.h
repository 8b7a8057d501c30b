// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "triplepoint/base/watch.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/finalists.h"
#include "triplepoint/search/neighbours.h"

namespace triplepoint::search {

/// What a search for plans was asked, and how it is done.
struct PlanQuestion {
  spec::Job base;
  Objective objective;
  Limits limits;
  bool pareto = false;  // plans that are thrifty alone widen the front
  size_t top = 5;
  int threads = 1;
  Watch watch = {};
};

/// The best plans of the space; an error where there is none, unless the search was stopped.
Result<Ranking> find_plans(const Space&, const PlanQuestion&);

/// A cheap run that makes the first plan's step time surer.
struct NextMeasurement {
  std::string on;  // "2 nodes and a batch of 64"
  int64_t gpus = 0;
  double step_time_s = 0;
  double narrowing = 0;  // of the interval: 0.3 takes 30 % of its width
};

/// What recordings of one's own taught: 80 of 100 step times lie within time / factor and
/// time * factor; the first plan really takes longer than the second with this probability.
struct OwnRuns {
  int64_t runs = 0;  // 0: there are none
  std::function<double(const Finalist&)> factor = {};
  std::function<double(const Finalist&, const Finalist&)> longer = {};
  std::optional<NextMeasurement> next = {};
};

/// What a search found, and what belongs to it.
struct PlanOutcome {
  PlanQuestion asked;
  Ranking ranking = {};
  metrics::PredictionIntervals intervals;
  metrics::BillRates rates;
  OwnRuns own_runs = {};  // then step times are as sure as these leave them
  std::function<metrics::Bill(const Finalist&)> bill = {};  // absent: none is asked for
  std::optional<OtherPlan> own = {};                        // the job file's own layout
  std::vector<OtherPlan> changes = {};                      // of it: the best one, the best two
  std::vector<OtherPlan> others = {};                       // plans beside the first
  std::vector<Finalist> explained = {};                     // two to compare, or none

  const Finalist& first() const { return ranking.ranked.front(); }
  /// Probability that a plan really takes longer than another.
  double slower(const Finalist& plan, const Finalist& than) const;
  double slower_than_first(const Finalist& plan) const { return slower(plan, first()); }
  std::optional<metrics::Interval> step_time(const Finalist&) const;
  /// Measured jobs that an interval rests on.
  int64_t interval_rows() const { return own_runs.runs > 0 ? own_runs.runs : intervals.rows(); }
};

inline constexpr const char* your_job = "your job";

/// The layout that the job has itself, if it has one that can run.
std::optional<OtherPlan> own_plan(const PlanQuestion&);

/// Which plan to run, what each of the best reaches and why it is not first; of pages: speed
/// against energy of all, and where a step of each goes.
answers::Document plan_answer(const PlanOutcome&);

}  // namespace triplepoint::search
