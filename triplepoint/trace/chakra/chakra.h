// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

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

// Chakra execution traces (MLCommons): one file per rank, a graph of nodes in protobuf.

struct ChakraTrace {
  Trace trace;
  Dependencies dependencies;
};

/// A file whose nodes have no start times (most have none) is laid out: every node begins as soon
/// as the nodes it needs (data_deps) have ended and its queue (tid, or the device's stream) is
/// free. `facts` then say times = laid_out. Nodes on a cycle are skipped and counted.
Result<ChakraTrace> parse_chakra(std::string_view bytes, const ReadOptions& = {});

bool looks_like_chakra(std::string_view head);
Result<Trace> read_chakra(Input&, const ReadOptions&);

/// The file of one rank. Other programs (ASTRA-sim) find what they know: types, comm_type,
/// comm_size, num_ops, tensor_size, dependencies, whole microseconds; ours finds every field, to
/// the nanosecond, in further attributes. Instances of patterns are expanded; times are since the
/// timeline's epoch, which the header keeps (as Unix time, 0 if that is not known), so that files
/// of ranks stay aligned. Dependencies on other ranks' spans are left out.
std::string write_chakra(const run::Timeline&, const Dependencies&, int32_t rank,
                         std::optional<int64_t> epoch_unix_ns = std::nullopt);

}  // namespace triplepoint::trace

namespace triplepoint::trace::chakra {

/// A graph of tasks with durations: task `first` needs task `second` of each pair.
struct TaskGraph {
  std::vector<int64_t> durations_ns;
  std::vector<int32_t> queues;  // tasks of a queue run one after the other
  std::vector<std::pair<int32_t, int32_t>> needs;
};

/// When each task begins if it starts as soon as what it needs has ended and its queue is free; of
/// tasks that wait for one queue, the one that became ready first. -1: it waits for itself.
std::vector<int64_t> begins_of(const TaskGraph&);

}  // namespace triplepoint::trace::chakra
