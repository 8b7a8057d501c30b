// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <pybind11/pybind11.h>

#include "python/run.h"

namespace triplepoint::python {

/// The spans of a rank (none: of all) as columns by name, patterns expanded. Texts are numbers of
/// the names beside them: "name" goes with "names", -1 is none.
pybind11::dict timeline_of(const Run& run, std::optional<int32_t> rank);

/// The ranks that have spans, ascending. A simulation keeps one of ranks that do the same.
std::vector<int32_t> ranks_of(const Run& run);

}  // namespace triplepoint::python
