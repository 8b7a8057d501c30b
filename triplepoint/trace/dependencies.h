// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

enum class DependencyKind : uint8_t {
  control,  // `before` called or launched `after`
  data      // `after` needs what `before` yields, or its place in a queue
};

/// Span `after` does not begin until `before` has done its part. Indices into Timeline::spans.
struct Dependency {
  int32_t before = 0, after = 0;
  DependencyKind kind = DependencyKind::data;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};
inline bool by_after(const Dependency& a, const Dependency& b) {
  return std::tuple(a.after, a.before, a.kind) < std::tuple(b.after, b.before, b.kind);
}

/// What execution traces know beside times: which span needs which. Sorted by_after, no doubles.
struct Dependencies {
  std::vector<Dependency> edges;
  friend bool operator==(const Dependencies&, const Dependencies&) = default;
};

/// What a profiler's timeline tells of dependencies: the order in each lane (data), where a span
/// does not lie inside the one before, and launch before kernel (control), by correlation.
Dependencies dependencies_of(const run::Timeline&);

}  // namespace triplepoint::trace
