// SPDX-License-Identifier: Apache-2.0
// The search for plans, asked by the flags of `triplepoint plan`; learning from own runs.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/learning.h"
#include "triplepoint/flags/plan_flags.h"

#include "python/bindings.h"
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

using MeasuredFile = std::pair<std::string, std::optional<std::string>>;  // and the job it ran

std::string calibrate(const std::vector<MeasuredFile>& files, const std::string& output,
                      int threads) {
  return wait_for<std::string>([=](Work&) -> Result<std::string> {
    const auto inputs = mapped(files, [](const MeasuredFile& one) {
      return app::LearnInput{one.first, one.second};
    });
    return json_text(answers::document_json(
        TPT_TRY(app::learn_from_files(TPT_TRY(spec::require_library()), inputs, output,
                                      threads > 0 ? threads : available_threads()))));
  });
}

}  // namespace

void add_plan(py::module_& module) {
  module.def("plan_flags", [] {
    flags::PlanFlags asked;
    return flag_tables(flags::plan_arguments(asked));
  });
  module.def("plan", &plan);
}

void add_calibrate(pybind11::module_& module) {
  module.def("calibrate", &calibrate);
}

}  // namespace triplepoint::python
