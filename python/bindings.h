// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace triplepoint::python {

// The parts of the module, in the files of their names.
void add_calibrate(pybind11::module_& module);
void add_compare(pybind11::module_& module);
void add_plan(pybind11::module_& module);
void add_record(pybind11::module_& module);
void add_sweep(pybind11::module_& module);

}  // namespace triplepoint::python
