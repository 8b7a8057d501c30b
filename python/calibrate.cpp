// SPDX-License-Identifier: Apache-2.0
// Learning from own runs.
#include <optional>
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/app/learning.h"

#include "python/bindings.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace {

std::string calibrate(const std::vector<std::string>& files, const std::optional<std::string>& job,
                      const std::string& output, int threads) {
  return wait_for<std::string>([=](Work&) -> Result<std::string> {
    std::vector<app::LearnInput> inputs;
    for (const std::string& file : files)
      inputs.push_back({file, job});
    return json_text(answers::document_json(
        TPT_TRY(app::learn_from_files(TPT_TRY(spec::require_library()), inputs, output,
                                      threads > 0 ? threads : available_threads()))));
  });
}

}  // namespace

void add_calibrate(pybind11::module_& module) {
  module.def("calibrate", &calibrate);
}

}  // namespace triplepoint::python
