// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "triplepoint/study/study_output.h"

namespace triplepoint::python {

/// A run with its metrics. What it hands out shares it.
struct Run {
  std::shared_ptr<const study::JobResults> results;

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

}  // namespace triplepoint::python
