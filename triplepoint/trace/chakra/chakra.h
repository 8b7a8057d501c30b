// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

// Chakra execution traces (MLCommons): one file per rank, a graph of nodes in protobuf. Source:
// mlcommons/chakra, schema/protobuf/et_def.proto; src/third_party/utils/protolib.py (messages with
// their length before each, a header and then nodes).

bool looks_like_chakra(std::string_view head);

/// What cannot be read is counted and left out: a broken field ends its node, a broken length ends
/// the file. A file whose nodes have no start times (most have none) is laid out: every node begins
/// as soon as the nodes it needs (data_deps) have ended and its queue (tid, or the device's stream)
/// is free. `facts` then say times = laid_out. Nodes on a cycle are skipped and counted.
Result<Trace> parse_chakra(std::string_view bytes, const ReadOptions& = {});
Result<Trace> read_chakra(Input&, const ReadOptions&);

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
