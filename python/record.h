// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace triplepoint::python {

void add_record(pybind11::module_& module);

}  // namespace triplepoint::python
