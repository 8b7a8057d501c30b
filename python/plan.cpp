// SPDX-License-Identifier: Apache-2.0
// The search for plans, asked by the flags of `triplepoint plan`.
#include <utility>

#include <pybind11/stl.h>

#include "triplepoint/base/json.h"

#include "triplepoint/flags/plan_flags.h"

#include "python/bindings.h"
#include "python/job.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

Watch watch_of(Work& work) {
  return {.begin =
              [&work](const char*, size_t total) {
                work.done = 0;
                work.total = total;
              },
          .advance = [&work] { ++work.done; },
          .stopped = [&work] { return work.stopped.load(); }};
}

py::tuple plan(const Job& job, const FlagTexts& texts, const py::object& progress) {
  flags::FoundPlans plans = wait_for<flags::FoundPlans>(
      [job, texts](Work& work) { return flags::find_plans(job, texts, watch_of(work)); }, progress);
  return py::make_tuple(json_text(answers::document_json(plans.answer)), std::move(plans.jobs));
}

}  // namespace

void add_plan(py::module_& module) {
  module.def("plan_flags", [] {
    flags::PlanFlags asked;
    return flag_tables(flags::plan_arguments(asked));
  });
  module.def("plan", &plan);
}

}  // namespace triplepoint::python
