// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/flags/arguments.h"

namespace triplepoint::python {

/// Flags by name with their texts, as the command line has them: {"--tp", "8"}; a switch has "".
using FlagTexts = std::vector<std::pair<std::string, std::string>>;

/// Stores every text with the argument of its name.
Result<void> store_all(const flags::Arguments& arguments, const FlagTexts& texts);

/// Every flag with its help, for the keyword arguments and type stubs of Python.
pybind11::list flag_tables(const flags::Arguments& arguments);

/// What a job is made of.
struct JobRequest {
  std::string file;       // empty: none is named
  std::string beginning;  // a job.toml as text in place of a file; empty: none
  FlagTexts flags;
};

/// A job, and what it was made of, for other flags to go on top.
struct Job {
  JobRequest request;
  std::shared_ptr<const spec::Job> spec;
};
Result<Job> make_job(JobRequest request);

/// A job that no flags have told: of a run or a plan.
Job whole_job(const spec::Job& job);

void add_job(pybind11::module_& module);

}  // namespace triplepoint::python
