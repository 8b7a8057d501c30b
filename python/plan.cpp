// SPDX-License-Identifier: Apache-2.0
// The search for plans, asked by the flags of `triplepoint plan`.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/plan_flags.h"
#include "triplepoint/study/plan_search.h"

#include "python/bindings.h"
#include "python/job.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

/// What a search found, for Python: the program's JSON, and the plans as jobs.
struct Plans {
  std::string json;
  std::vector<Job> jobs;  // of json's plans[]
};

flags::Arguments plan_arguments(flags::PlanFlags& asked) {
  return asked.search().add(asked.ranking()).add(asked.threads()).add(asked.bill());
}

/// The job as `plan` reads it; a job that was given a layout keeps it.
Result<spec::Job> base_of(const Job& job, const spec::Library& library) {
  flags::JobFlags told;
  bool has_layout = false;
  const flags::Arguments arguments =
      told.arguments_of_search([&](const auto&, auto) { has_layout = true; });
  const auto& [file, beginning, texts] = job.request;
  if (!beginning.empty()) return *job.spec;
  if (!file.empty()) TPT_TRY(store_all(arguments, {{arguments.front().names, file}}));
  if (!store_all(arguments, texts) || has_layout) return *job.spec;
  return told.job(library);
}

/// Whether the job says more than flags without a layout can.
bool has_layout(const Job& job) {
  flags::JobFlags told;
  bool given = false;
  const flags::Arguments arguments =
      told.arguments_of_search([&](const auto&, auto) { given = true; });
  return !job.request.file.empty() || !job.request.beginning.empty() ||
         !store_all(arguments, job.request.flags) || given;
}

Watch watch_of(Work& work) {
  return {.begin =
              [&work](const char*, size_t total) {
                work.done = 0;
                work.total = total;
              },
          .advance = [&work] { ++work.done; },
          .stopped = [&work] { return work.stopped.load(); }};
}

Plans as_plans(const search::PlanOutcome& outcome) {
  Plans plans{json_text(answers::document_json(search::plan_answer(outcome))), {}};
  for (const search::Finalist& plan : outcome.ranking.ranked) {
    spec::Job job = search::job_of(outcome.asked.base, plan);
    job.name = answers::default_name(job);
    plans.jobs.push_back(whole_job(job));
  }
  return plans;
}

Result<Plans> find_plans(const Job& job, const FlagTexts& texts, Work& work) {
  flags::PlanFlags flags;
  TPT_TRY(store_all(plan_arguments(flags), texts));
  const ThreadLimit limit = flags.thread_limit();
  const spec::Library library = TPT_TRY(spec::require_library());
  const spec::Job base = TPT_TRY(base_of(job, library));
  const metrics::BillRates rates = TPT_TRY(flags.billed().rates(library, base.environment));
  search::PlanQuestion asked = TPT_TRY(flags.question(library, base, rates));
  asked.watch = watch_of(work);
  const search::Space space = TPT_TRY(flags.searched().space(asked.base));
  const search::Ranking ranking = TPT_TRY(study::find_plans(space, asked));
  if (work.stopped) return error("interrupted");
  const auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
  return as_plans({.asked = asked,
                   .ranking = ranking,
                   .intervals = intervals,
                   .rates = rates,
                   .bill = flags.bill_of(asked.base, rates),
                   .own = has_layout(job) ? search::own_plan(asked) : std::nullopt});
}

py::tuple plan(const Job& job, const FlagTexts& texts, const py::object& progress) {
  Plans plans =
      wait_for<Plans>([job, texts](Work& work) { return find_plans(job, texts, work); }, progress);
  return py::make_tuple(std::move(plans.json), std::move(plans.jobs));
}

}  // namespace

void add_plan(py::module_& module) {
  module.def("plan_flags", [] {
    flags::PlanFlags asked;
    return flag_tables(plan_arguments(asked));
  });
  module.def("plan", &plan);
}

}  // namespace triplepoint::python
