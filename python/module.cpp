// SPDX-License-Identifier: Apache-2.0
// The compiled half of the Python package `triplepoint`: flags become jobs and runs by the same
// code as on the command line. Names, units, tables and help are python/triplepoint/.
#include <string>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "triplepoint/base/installation.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/system/process.h"

#include "python/bindings.h"
#include "python/run.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

/// The exception class lives as long as the interpreter, which may outlive this module's globals.
py::handle error_class() {
  // Python counts its references.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static PyObject* const held = PyErr_NewExceptionWithDoc(
      "triplepoint.Error",
      "What went wrong, why, and what to try: the sentence that the command line prints.", nullptr,
      nullptr);
  return held;
}

std::vector<std::string> names_of(const std::string& kind) {
  const spec::Library library = value_or_raise(spec::require_library());
  if (kind == "models") return spec::list_models(library);
  if (kind == "gpus") return spec::list_gpus(library);
  if (kind == "clusters") return spec::list_clusters(library);
  if (kind == "stacks") return spec::list_stacks(library);
  if (kind == "records") return spec::list_records(library);
  return spec::list_optimizers(library);
}

}  // namespace

void raise_error(const std::string& what) {
  PyErr_SetString(error_class().ptr(), what.c_str());
  throw py::error_already_set();
}

}  // namespace triplepoint::python

PYBIND11_MODULE(_core, module) {
  using namespace triplepoint;
  module.attr("Error") = python::error_class();
  module.def("version", &program_version);
  module.def("names", &python::names_of);
  module.def("detached_threads", &detached_threads);
  python::add_job(module);
  python::add_run(module);
  python::add_sweep(module);
  python::add_plan(module);
  python::add_calibrate(module);
  python::add_compare(module);
  python::add_record(module);
}
