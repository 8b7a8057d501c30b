// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/metrics/trace/breakdown.h"

namespace triplepoint::metrics {

/// One label or kernel name in two traces, per rank and step; absent: does not occur.
struct DiffRow {
  std::string label, name;
  std::optional<double> count_before, count_after;
  std::optional<double> ns_before, ns_after;
  double difference() const { return ns_after.value_or(0) - ns_before.value_or(0); }
};

/// One step in both traces, mean over ranks, from first begin to last end on the device.
struct DiffStep {
  std::string name_before, name_after;
  std::optional<double> ns_before, ns_after;
};

/// What changed from one trace to another. Both are divided by their numbers of ranks and of steps
/// (1 where a trace has no steps), so that traces of different length compare; what lies in no step
/// is left out where both have steps. Steps align from the first on.
struct TraceDiff {
  std::vector<DiffRow> by_label, by_name;  // largest difference first
  std::vector<DiffStep> steps;             // empty unless both have steps
  int64_t ranks_before = 0, ranks_after = 0;
  bool per_step = false;
};
TraceDiff diff_traces(const run::Timeline& before, const run::Timeline& after);

}  // namespace triplepoint::metrics
