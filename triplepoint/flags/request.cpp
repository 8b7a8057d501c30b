// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/request.h"

#include <algorithm>

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/plan_flags.h"
#include "triplepoint/flags/simulation_flags.h"
#include "triplepoint/search/plan_outcome.h"

namespace triplepoint::flags {

Result<void> store_all(const Arguments& arguments, const FlagTexts& texts) {
  for (const auto& [name, text] : texts) {
    const auto argument = std::ranges::find_if(
        arguments, [&name = name](const Argument& each) { return has_name(each, name); });
    if (argument == arguments.end())
      return error("{} is no flag of this call; help() of it lists them", name);
    TPT_TRY(store_text(*argument, text));
  }
  return {};
}

Result<RequestedJob> make_job(JobRequest request) {
  JobFlags told;
  const Arguments arguments = told.arguments();
  if (!request.beginning.empty()) told.begin_with(request.beginning);
  if (!request.file.empty())
    TPT_TRY(store_all(arguments, {{arguments.front().names, request.file}}));
  TPT_TRY(store_all(arguments, request.flags));
  const spec::Library library = TPT_TRY(spec::require_library());
  spec::Job job = TPT_TRY(told.job(library));
  return RequestedJob{std::move(request), std::make_shared<const spec::Job>(std::move(job)),
                      TPT_TRY(told.own_runs())};
}

RequestedJob whole_job(const spec::Job& job) {
  return {{.beginning = spec::write_job(job)}, std::make_shared<const spec::Job>(job)};
}

Result<JobResults> simulate(const RequestedJob& job, const FlagTexts& texts) {
  SimulationFlags asked;
  TPT_TRY(store_all(asked.all(), texts));
  return asked.results(TPT_TRY(spec::require_library()), *job.spec, job.own_runs);
}

Arguments plan_arguments(PlanFlags& asked) {
  return asked.search().add(asked.ranking()).add(asked.threads()).add(asked.bill());
}

namespace {

/// The job as `plan` reads it, and whether it says more than flags without a layout can; a job that
/// was given a layout keeps it.
struct PlanBase {
  spec::Job job;
  bool has_layout = false;
};

Result<PlanBase> base_of(const RequestedJob& job, const spec::Library& library) {
  JobFlags told;
  bool has_layout = false;
  const Arguments arguments =
      told.arguments_of_search([&](const auto&, auto) { has_layout = true; });
  const auto& [file, beginning, texts] = job.request;
  if (!beginning.empty()) return PlanBase{*job.spec, true};
  if (!file.empty()) TPT_TRY(store_all(arguments, {{arguments.front().names, file}}));
  if (!store_all(arguments, texts) || has_layout) return PlanBase{*job.spec, true};
  return PlanBase{TPT_TRY(told.job(library)), !file.empty()};
}

FoundPlans as_plans(const search::PlanOutcome& outcome) {
  FoundPlans plans{search::plan_answer(outcome), {}};
  for (const search::Finalist& plan : outcome.ranking.ranked) {
    spec::Job job = search::job_of(outcome.asked.base, plan);
    job.name = answers::default_name(job);
    plans.jobs.push_back(whole_job(job));
  }
  return plans;
}

}  // namespace

Result<FoundPlans> find_plans(const RequestedJob& job, const FlagTexts& texts, const Watch& watch) {
  PlanFlags flags;
  TPT_TRY(store_all(plan_arguments(flags), texts));
  const ThreadLimit limit = flags.thread_limit();
  const spec::Library library = TPT_TRY(spec::require_library());
  const auto [base, has_layout] = TPT_TRY(base_of(job, library));
  search::PlanOutcome outcome = TPT_TRY(flags.outcome(library, base, watch));
  if (watch.stopped()) return error("interrupted");
  if (has_layout) outcome.own = search::own_plan(outcome.asked);
  return as_plans(outcome);
}

}  // namespace triplepoint::flags
