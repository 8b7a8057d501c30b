// SPDX-License-Identifier: Apache-2.0
// Runs beside each other.
#include "triplepoint/report/compare/compare.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/document_text.h"

#include "python/bindings.h"
#include "python/run.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

using report::Comparison;

Comparison compare(const std::vector<Run>& runs, const std::vector<std::string>& names) {
  return wait_for<Comparison>([runs, names](Work&) -> Result<Comparison> {
    std::vector<report::Side> sides;
    for (size_t i = 0; i < runs.size(); ++i)
      sides.push_back(report::side_of(runs[i].run(), runs[i].metrics(), names[i]));
    return report::compare_runs(std::move(sides));
  });
}

std::string text_of(const Comparison& comparison, bool all) {
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  tui::print_document(console, report::comparison_document(comparison, all));
  return out.str();
}

}  // namespace

void add_compare(py::module_& module) {
  py::class_<Comparison>(module, "Comparison")
      .def("json",
           [](const Comparison& c) {
             return json_text(answers::document_json(report::comparison_document(c, true)));
           })
      .def("sentences", [](const Comparison& c) { return report::sentences_of(c); })
      .def("text", &text_of)
      .def("save_page", [](const Comparison& c, const std::string& file) {
        value_or_raise(write_file_atomically(
            file, report::document_page(report::comparison_document(c, true))));
      });
  module.def("compare", &compare);
}

}  // namespace triplepoint::python
