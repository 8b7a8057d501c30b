// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <pybind11/pybind11.h>

#include "triplepoint/flags/job_results.h"

namespace triplepoint::python {

/// A run with its metrics. What it hands out shares it.
struct Run {
  std::shared_ptr<const flags::JobResults> results;

  const run::Run& run() const { return results->run; }
  const metrics::Metrics& metrics() const { return results->metrics; }
};
Run with_metrics(run::Run run);

/// Values of a run in its own memory, for NumPy to look at.
struct Column {
  std::shared_ptr<const void> owner;
  const void* data = nullptr;
  pybind11::ssize_t size = 0;
  bool is_whole = false;  // int64; else double
};

void add_run(pybind11::module_& module);

/// The spans of a rank (none: of all) as columns by name, patterns expanded. Texts are numbers of
/// the names beside them: "name" goes with "names", -1 is none.
pybind11::dict timeline_of(const Run& run, std::optional<int32_t> rank);

/// The ranks that have spans, ascending. A simulation keeps one of ranks that do the same.
std::vector<int32_t> ranks_of(const Run& run);

}  // namespace triplepoint::python
