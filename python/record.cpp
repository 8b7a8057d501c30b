// SPDX-License-Identifier: Apache-2.0
// The recorder inside of the program that trains.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/app/record_flags.h"
#include "triplepoint/app/recording.h"

#include "python/bindings.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

using app::OwnRecording;
using Lines = std::vector<std::string>;

std::shared_ptr<OwnRecording> begin(std::optional<std::string> file, Lines command,
                                    const FlagTexts& texts, const Job* job) {
  std::shared_ptr<const spec::Job> spec = job == nullptr ? nullptr : job->spec;
  return wait_for<std::shared_ptr<OwnRecording>>(
      [file = std::move(file), command = std::move(command), texts,
       spec](Work&) -> Result<std::shared_ptr<OwnRecording>> {
        app::RecordFlags asked;
        TPT_TRY(flags::store_all(asked.arguments(), texts));
        app::RecordingRequest request = TPT_TRY(asked.request());
        request.output = file;
        request.command = command;
        if (spec) request.job = *spec;
        return std::shared_ptr<OwnRecording>(TPT_TRY(OwnRecording::begin(request)));
      });
}

Lines finish(const std::shared_ptr<OwnRecording>& recording) {
  return wait_for<Lines>([recording](Work&) { return recording->finish(); });
}

}  // namespace

void add_record(py::module_& module) {
  module.def("record_flags", [] {
    app::RecordFlags asked;
    return flag_tables(asked.arguments());
  });
  py::class_<OwnRecording, std::shared_ptr<OwnRecording>>(module, "Recording")
      .def_property_readonly("marks", [](const OwnRecording& r) { return r.marks().string(); })
      .def_property_readonly("file", [](const OwnRecording& r) { return r.file().string(); })
      .def("finish", &finish);
  module.def("record", &begin, py::arg("file"), py::arg("command"), py::arg("flags"),
             py::arg("job").none(true));
}

}  // namespace triplepoint::python
