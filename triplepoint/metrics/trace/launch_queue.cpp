// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/launch_queue.h"

#include <algorithm>

#include "triplepoint/base/statistics.h"

namespace triplepoint::metrics {

namespace {

struct Event {
  int64_t time = 0;
  int change = 0;  // +1 called, -1 begun
};

void measure_depth(std::vector<Event>& events, LaunchQueue& queue) {
  // A call and a begin at the same time: called first.
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::pair(a.time, -a.change) < std::pair(b.time, -b.change);
  });
  int64_t depth = 0;
  double area = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    depth += events[i].change;
    queue.deepest = std::max(queue.deepest, depth);
    if (i + 1 < events.size())
      area += static_cast<double>(depth) * static_cast<double>(events[i + 1].time - events[i].time);
  }
  const int64_t length = events.back().time - events.front().time;
  if (length > 0) queue.mean_depth = area / static_cast<double>(length);
}

}  // namespace

std::vector<LaunchQueue> launch_queues(const run::Timeline& timeline) {
  const std::vector<int32_t> launches = launches_of(timeline);
  std::vector<LaunchQueue> queues;
  for (LaneOfSpans& lane : lanes_of(timeline, LaneKind::device)) {
    LaunchQueue queue;
    std::vector<int64_t> delays, calls;
    std::vector<Event> events;
    for (int32_t index : lane.spans) {
      const int32_t launch = launches[static_cast<size_t>(index)];
      if (launch < 0) {
        ++queue.unknown;
        continue;
      }
      const run::Span& call = timeline.spans[static_cast<size_t>(launch)];
      const int64_t begin = timeline.spans[static_cast<size_t>(index)].begin.nanoseconds();
      delays.push_back(begin - call.end.nanoseconds());
      calls.push_back(nanoseconds_of(call));
      events.push_back({call.begin.nanoseconds(), 1});
      events.push_back({std::max(begin, call.begin.nanoseconds()), -1});
    }
    if (delays.empty()) continue;
    queue.launches = static_cast<int64_t>(delays.size());
    queue.shortest_delay = lower_quantile(delays, 0);
    queue.median_delay = lower_quantile(delays, 0.5);
    queue.p90_delay = lower_quantile(delays, 0.9);
    queue.longest_delay = lower_quantile(delays, 1);
    queue.median_call = lower_quantile(calls, 0.5);
    measure_depth(events, queue);
    lane.spans.clear();
    queue.lane = std::move(lane);
    queues.push_back(std::move(queue));
  }
  return queues;
}

}  // namespace triplepoint::metrics
