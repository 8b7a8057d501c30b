// SPDX-License-Identifier: Apache-2.0
#include "python/run.h"

#include <span>
#include <sstream>
#include <string>
#include <utility>

#include <pybind11/stl.h>

#include "triplepoint/base/json.h"

#include "triplepoint/run/export.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/store/store.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/run_text.h"

#include "python/bindings.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;

Run with_metrics(run::Run run) {
  auto results = std::make_shared<flags::JobResults>();
  results->run = std::move(run);
  results->metrics = metrics::measure(results->run);
  return {std::move(results)};
}

namespace {

Run simulate(const Job& job, const FlagTexts& texts) {
  return wait_for<Run>([job, texts](Work&) -> Result<Run> {
    return Run{std::make_shared<const flags::JobResults>(TPT_TRY(flags::simulate(job, texts)))};
  });
}

Run read(const std::vector<std::string>& sources) {
  return wait_for<Run>([sources](Work&) -> Result<Run> {
    return with_metrics(TPT_TRY(app::load_run_source(sources, {})));
  });
}

/// What the command line prints of it.
std::string text_of(const Run& self) {
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  self.run().manifest.job ? tui::print_results(console, *self.results)
                          : tui::print_run(console, self.run(), self.metrics());
  return out.str();
}

std::string json_of(const Run& self) {
  return json_text(self.run().manifest.job ? flags::results_json(*self.results)
                                           : answers::results_json(self.run(), self.metrics()));
}

std::string page_of(const Run& self) {
  return report::run_page(self.run(), self.metrics(), app::numbers_of(self.run()));
}

/// The top of the run's page, for notebooks.
py::dict head_of(const Run& self) {
  const report::RunHead head = report::run_head(self.run(), self.metrics());
  py::list tiles, findings;
  if (run::has_trained(self.run()))
    for (const answers::KeyFigure& tile : head.tiles)
      tiles.append(py::make_tuple(tile.label, tile.value, tile.remark));
  for (const answers::Remark& finding :
       answers::run_findings(self.run(), self.metrics(),
                             self.results->fault_free ? &*self.results->fault_free : nullptr))
    findings.append(finding.text);
  py::dict dict;
  dict["title"] = head.title;
  dict["facts"] = head.facts;
  dict["tiles"] = tiles;
  dict["findings"] = findings;
  return dict;
}

// ---- values over time

template <class T>
Column column_of(const Run& self, std::span<const T> values) {
  static_assert(sizeof(T) == sizeof(int64_t));
  return {self.results, values.data(), static_cast<py::ssize_t>(values.size()),
          !std::is_same_v<T, double>};
}

py::buffer_info buffer_of(const Column& column) {
  const py::ssize_t item = sizeof(int64_t);
  // NumPy and memoryview only read: the buffer is marked so.
  return {const_cast<void*>(column.data),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          item,
          column.is_whole ? py::format_descriptor<int64_t>::format()
                          : py::format_descriptor<double>::format(),
          1,
          {column.size},
          {item},
          true};
}

py::object series_of(const Run& self, const std::string& signal, int32_t device, bool of_node) {
  const run::Series* series = run::find_series(self.run(), signal, device, of_node);
  if (series == nullptr) return py::none();
  return py::make_tuple(column_of(self, series->times.all()),
                        column_of(self, std::span(series->values)));
}

py::list list_of_series(const Run& self) {
  py::list list;
  for (const run::Series& series : self.run().series)
    list.append(py::make_tuple(series.signal, series.device, series.of_node, series.values.size()));
  return list;
}

py::object job_of(const Run& self) {
  if (!self.run().manifest.job) return py::none();
  return py::cast(flags::whole_job(*self.run().manifest.job));
}

void save(const Run& self, const std::string& file) {
  wait_for<bool>([self, file](Work&) { return run::save(self.run(), file); });
}

void save_text(const std::string& file, const std::string& text) {
  value_or_raise(write_file_atomically(file, text));
}

}  // namespace

void add_run(py::module_& module) {
  py::class_<Column>(module, "Column", py::buffer_protocol())
      .def_buffer([](const Column& column) { return buffer_of(column); })
      .def("__len__", [](const Column& column) { return column.size; });
  py::class_<Run>(module, "Run")
      .def("cells",
           [](const Run& self) { return answers::results_row(self.run(), self.metrics()); })
      .def("json", &json_of)
      .def("text", &text_of)
      .def("page", &page_of)
      .def("head", &head_of)
      .def("job", &job_of)
      .def("timeline", &timeline_of)
      .def("ranks", &ranks_of)
      .def("series", &series_of)
      .def("list_of_series", &list_of_series)
      .def("save", &save)
      .def("save_page", [](const Run& self, const std::string& f) { save_text(f, page_of(self)); })
      .def("save_perfetto", [](const Run& self, const std::string& f) {
        save_text(f, run::perfetto_trace(self.run()));
      });
  module.def("columns", [] {
    py::list list;
    for (const answers::Quantity* column : answers::results_columns())
      list.append(py::make_tuple(column->name, answers::json_type(column->type), column->unit,
                                 answers::sentence_of(*column)));
    return list;
  });
  module.def("simulate", &simulate);
  module.def("read", &read);
}

}  // namespace triplepoint::python
