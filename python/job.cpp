// SPDX-License-Identifier: Apache-2.0
#include "python/job.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/library.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/simulation_flags.h"

#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;

Result<void> store_all(const flags::Arguments& arguments, const FlagTexts& texts) {
  for (const auto& [name, text] : texts) {
    const auto argument = std::find_if(
        arguments.begin(), arguments.end(),
        [&name = name](const flags::Argument& each) { return flags::has_name(each, name); });
    if (argument == arguments.end())
      return error(fmt::format("{} is no flag of this call; help() of it lists them", name));
    TPT_TRY(flags::store_text(*argument, text));
  }
  return {};
}

Result<Job> make_job(JobRequest request) {
  flags::JobFlags told;
  const flags::Arguments arguments = told.arguments();
  if (!request.beginning.empty()) told.begin_with(request.beginning);
  if (!request.file.empty())
    TPT_TRY(store_all(arguments, {{arguments.front().names, request.file}}));
  TPT_TRY(store_all(arguments, request.flags));
  const spec::Library library = TPT_TRY(spec::require_library());
  spec::Job job = TPT_TRY(told.job(library));
  return Job{std::move(request), std::make_shared<const spec::Job>(std::move(job))};
}

Job whole_job(const spec::Job& job) {
  return {{.file = {}, .beginning = spec::write_job(job), .flags = {}},
          std::make_shared<const spec::Job>(job)};
}

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

}  // namespace

py::list flag_tables(const flags::Arguments& arguments) {
  py::list list;
  for (const flags::Argument& argument : arguments)
    if (argument.is_flag()) list.append(as_dict(argument));
  return list;
}

namespace {

std::string toml_of(const Job& job) {
  return spec::write_job(*job.spec, value_or_raise(spec::require_library()));
}

}  // namespace

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
    return value_or_raise(make_job({std::move(file), std::move(beginning), std::move(flags)}));
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
