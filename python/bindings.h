// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/request.h"

namespace triplepoint::python {

using flags::FlagTexts;
using flags::JobRequest;
using Job = flags::RequestedJob;

/// Every flag with its help, for the keyword arguments and type stubs of Python.
pybind11::list flag_tables(const flags::Arguments& arguments);

void add_job(pybind11::module_& module);

// The parts of the module, in the files of their names.
void add_calibrate(pybind11::module_& module);
void add_compare(pybind11::module_& module);
void add_plan(pybind11::module_& module);
void add_record(pybind11::module_& module);
void add_sweep(pybind11::module_& module);

}  // namespace triplepoint::python
