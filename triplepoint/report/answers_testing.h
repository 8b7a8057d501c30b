// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/advise/place.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/pages/validation_page.h"
#include "triplepoint/report/study_testing.h"
#include "triplepoint/search/plan_outcome.h"

namespace triplepoint::report {

// Made-up answers of plan, place and validate, for tests of their pages.

/// Two sources: rows of one lie in their interval, of the other far above it.
inline calibrate::TableScores sample_scores() {
  calibrate::TableScores scores{.table = "jobs", .rows = 13};
  for (int i = 0; i < 12; ++i) {
    const bool is_far = i % 2 == 1;
    scores.scored.push_back({.row_id = fmt::format("tp2-row-<{}>", i),
                             .family = is_far ? "far" : "near",
                             .quantity = i < 6 ? "step_time_s" : "tokens_per_s_per_gpu",
                             .sweep = "",
                             .measured = 1.0 + i,
                             .predicted = (1.0 + i) * (is_far ? 3 : 1.04),
                             .notes = {"microbatch 1"},
                             .interval = metrics::Interval{0.9 * (1.0 + i), 1.3 * (1.0 + i)}});
    if (is_far) scores.scored.back().interval = metrics::Interval{2.7 * (1.0 + i), 3.9 * (1.0 + i)};
  }
  scores.skip("row-12", "32 stages cannot share 16 layers");
  scores.fit = {.ran_and_fits = 12, .failed_and_does_not_fit = 1};
  return scores;
}

inline search::Finalist sample_plan(const spec::Job& job, double time, double energy) {
  search::Finalist plan;
  plan.candidate.plan = job.plan;
  plan.candidate.layout = {.tensor = job.plan.tensor_parallel_size,
                           .pipeline = job.plan.pipeline_parallel_size,
                           .expert_tensor = job.plan.tensor_parallel_size,
                           .data = job.data_parallel_size()};
  plan.candidate.memory = 100 * unit::GiB;
  plan.time = plan.value = plan.candidate.step.time = time;
  plan.energy = plan.scope_energy = energy;
  plan.tokens_per_second = 1e5 / time;
  plan.mfu = 0.5;
  plan.hottest = 70 + time / 10;
  plan.terms[as_size(search::Term::compute)] = 10;
  plan.terms[as_size(search::Term::bubble)] = time - 10;
  return plan;
}

inline std::string sample_plan_page() {
  spec::Job job = *sample_run().manifest.job;
  job.notes = {"sequence length 2048 (the model's)"};
  search::PlanQuestion asked{.base = job};
  asked.limits.temperature = Celsius(75);
  search::Ranking ranking;
  ranking.ranked = {sample_plan(job, 16, 300e3), sample_plan(job, 17, 280e3)};
  const auto intervals = metrics::PredictionIntervals::load(spec::default_library());
  return document_page(search::plan_answer(
      {.asked = asked,
       .ranking = ranking,
       .intervals = intervals.value(),
       .own = search::OtherPlan{"your job", sample_plan(job, 24, 400e3), {}},
       .others = {{"TP16 instead of 8", sample_plan(job, 15, 0), 4.5 * unit::GiB}}}));
}

inline std::string sample_place_page() {
  const run::Run run = sample_run();
  advise::PlaceResult result;
  for (const auto kind : {advise::PlacementKind::baseline, advise::PlacementKind::searched}) {
    advise::Placement placement{.kind = kind, .shift = 0, .job = *run.manifest.job};
    const bool is_base = kind == advise::PlacementKind::baseline;
    placement.outcome = {.fits = true, .step_time = is_base ? 20.0 : 19.5};
    placement.outcome.stages = {{}};
    if (!is_base) placement.over = {.machines = 16, .mean = 0.015, .worst = -0.004, .gaining = 14};
    result.placements.push_back(std::move(placement));
  }
  result.recommended = result.fastest = 1;
  const advise::GroupedMachine seen{.source = "simulated"};
  return document_page(advise::place_answer(*run.manifest.job, seen, result, false));
}

inline std::string sample_validation_page() {
  return validation_page({{"rows.csv", sample_scores()}}, 3);
}

}  // namespace triplepoint::report
