// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/run.h"

#include <algorithm>

namespace triplepoint::run {

Bytes MemoryUse::total() const {
  return weights + gradients + optimizer + activations + logits + buffers + reserve;
}

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::simulated:
      return "simulated";
    case Origin::measured:
      return "measured";
    case Origin::imported:
      return "imported";
  }
  return "unknown";
}

std::string_view name_of(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::bound:
      return "bound";
    case Fidelity::step:
      return "step";
    case Fidelity::transient:
      return "transient";
    case Fidelity::real:
      return "real";
  }
  return "unknown";
}

std::string_view name_of(Scope scope) {
  constexpr std::string_view names[] = {"gpu",  "memory", "module", "package", "dram",
                                        "core", "nic",    "host",   "node"};
  return names[static_cast<std::size_t>(scope)];
}

std::string_view name_of(ReadingKind kind) {
  constexpr std::string_view names[] = {"instant", "average", "counter", "bits"};
  return names[static_cast<std::size_t>(kind)];
}

const Series* find_series(const Run& run, std::string_view signal, int32_t device, bool of_node) {
  const auto found = std::find_if(run.series.begin(), run.series.end(), [&](const Series& series) {
    return series.device == device && series.of_node == of_node && series.signal == signal;
  });
  return found == run.series.end() ? nullptr : &*found;
}

std::vector<StepRecord> detailed_steps(const Run& run) {
  const std::optional<Extent> shown = extent(run.timeline);
  if (!shown) return run.steps;
  // A simulated timeline has no spans of the host's time between steps, which can exceed half a
  // step.
  const bool simulated = run.manifest.origin == Origin::simulated;
  std::vector<StepRecord> detailed;
  for (const StepRecord& step : run.steps) {
    const Seconds covered = std::min(step.end, shown->end) - std::max(step.begin, shown->begin);
    const bool mostly = covered > Seconds() && 2 * covered >= step.end - step.begin;
    if (mostly || (simulated && step.begin <= shown->begin && shown->end <= step.end))
      detailed.push_back(step);
  }
  return detailed;
}

}  // namespace triplepoint::run
