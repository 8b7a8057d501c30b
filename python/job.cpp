// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/simulation_flags.h"

#include "python/bindings.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;

namespace {

py::dict as_dict(const flags::Argument& argument) {
  py::dict dict;
  dict["names"] = split(argument.names, ',');
  dict["value"] = argument.value;
  dict["help"] = argument.help;
  dict["group"] = argument.group;
  dict["choices"] = argument.choices;
  dict["repeats"] = argument.repeats;
  return dict;
}

std::string toml_of(const Job& job) {
  return spec::write_job(*job.spec, value_or_raise(spec::require_library()));
}

}  // namespace

py::list flag_tables(const flags::Arguments& arguments) {
  py::list list;
  for (const flags::Argument& argument : arguments)
    if (argument.is_flag()) list.append(as_dict(argument));
  return list;
}

void add_job(py::module_& module) {
  module.def("job_flags", [] {
    flags::JobFlags told;
    return flag_tables(told.arguments());
  });
  module.def("simulation_flags", [] {
    flags::SimulationFlags asked;
    return flag_tables(asked.all());
  });
  module.def("make_job", [](std::string file, std::string beginning, FlagTexts flags) {
    return value_or_raise(
        flags::make_job({std::move(file), std::move(beginning), std::move(flags)}));
  });
  py::class_<Job>(module, "Job")
      .def_property_readonly("name", [](const Job& job) { return job.spec->name; })
      .def_property_readonly("model", [](const Job& job) { return job.spec->model.name; })
      .def_property_readonly("cluster", [](const Job& job) { return job.spec->cluster.name; })
      .def_property_readonly("num_gpus", [](const Job& job) { return job.spec->world_size(); })
      .def_property_readonly("notes", [](const Job& job) { return job.spec->notes; })
      .def_property_readonly("beginning", [](const Job& job) { return job.request.beginning; })
      .def("toml", &toml_of)
      .def("__eq__", [](const Job& a, const Job& b) { return *a.spec == *b.spec; });
}

}  // namespace triplepoint::python
