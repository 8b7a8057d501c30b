// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/learn/calibration.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/neighbours.h"
#include "triplepoint/search/search.h"
#include "triplepoint/study/plan_search.h"

namespace triplepoint::flags {

/// What a search found, and what belongs to it.
struct PlanOutcome {
  const study::PlanQuestion& asked;
  const search::Space& space;
  const search::Ranking& ranking;
  const metrics::BillRates& rates;
  const metrics::PredictionIntervals& intervals;
  const BillFlags& bill;
  std::optional<search::OtherPlan> own;  // the job file's own layout
  // What own runs taught; then step times are as sure as that.
  std::optional<learn::Calibration> learned = std::nullopt;
};

/// The layout that the job has itself, if it has one that can run.
std::optional<search::OtherPlan> own_plan(const study::PlanQuestion&);

/// How the ranking came about: counts, interval, what was refused, what memory costs, the bill.
std::vector<std::string> plan_sentences(const PlanOutcome& outcome);
/// What `plan --format json` prints; `comparison`: of --explain.
Json plan_json(const PlanOutcome& outcome, const std::optional<DataTable>& comparison = {});
/// The page of all plans, into this file.
Result<void> write_plan_page(const Path& file, const PlanOutcome& outcome,
                             const std::vector<std::string>& sentences);

/// The sequence length, and what the job left out.
const std::string& defaults_of(const PlanOutcome& outcome);
/// How the job's file was read: what was assumed, and what was left out.
std::vector<std::string> readings_of(const PlanOutcome& outcome);

}  // namespace triplepoint::flags
