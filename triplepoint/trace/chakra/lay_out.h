// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

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
