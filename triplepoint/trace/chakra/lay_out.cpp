// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/lay_out.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace triplepoint::trace::chakra {

std::vector<int64_t> begins_of(const TaskGraph& graph) {
  const size_t count = graph.durations_ns.size();
  std::vector<int32_t> missing(count, 0);
  std::vector<int64_t> ready(count, 0), begins(count, -1);
  auto needs = graph.needs;
  std::sort(needs.begin(), needs.end(), [](auto a, auto b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  for (const auto& [after, before] : needs)
    ++missing[static_cast<size_t>(after)];
  using Entry = std::pair<int64_t, int32_t>;  // ready, task
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  for (size_t i = 0; i < count; ++i)
    if (missing[i] == 0) waiting.emplace(0, static_cast<int32_t>(i));
  std::unordered_map<int32_t, int64_t> free_at;
  while (!waiting.empty()) {
    const auto [since, task] = waiting.top();
    waiting.pop();
    int64_t& free = free_at[graph.queues[static_cast<size_t>(task)]];
    const int64_t begin = std::max(since, free);
    begins[static_cast<size_t>(task)] = begin;
    free = begin + graph.durations_ns[static_cast<size_t>(task)];
    const auto before = [](const auto& need, int32_t t) { return need.second < t; };
    auto need = std::lower_bound(needs.begin(), needs.end(), task, before);
    for (; need != needs.end() && need->second == task; ++need) {
      const auto after = static_cast<size_t>(need->first);
      ready[after] = std::max(ready[after], free);
      if (--missing[after] == 0) waiting.emplace(ready[after], need->first);
    }
  }
  return begins;
}

}  // namespace triplepoint::trace::chakra
