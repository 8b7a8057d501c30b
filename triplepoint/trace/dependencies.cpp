// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/dependencies.h"

#include <algorithm>
#include <map>
#include <utility>

namespace triplepoint::trace {

namespace {

bool is_on_device(const run::Timeline& timeline, const run::Span& span) {
  const run::SpanKind kind = timeline.types[static_cast<size_t>(span.type)].kind;
  return kind <= run::SpanKind::other || kind == run::SpanKind::copy;
}

/// Where spans without a lane run: one queue per stream of a rank.
int64_t queue_of(const run::Timeline& timeline, size_t i) {
  if (!timeline.details.empty() && timeline.details[i].lane >= 0) return timeline.details[i].lane;
  const run::Span& span = timeline.spans[i];
  const auto stream = timeline.types[static_cast<size_t>(span.type)].stream;
  return -1 - (int64_t{span.rank} * 3 + static_cast<int64_t>(stream));
}

}  // namespace

Dependencies dependencies_of(const run::Timeline& timeline) {
  Dependencies found;
  std::map<int64_t, int32_t> last_in;                        // queue -> span
  std::map<std::pair<int32_t, int64_t>, int32_t> launch_of;  // rank, correlation -> host span
  const auto add = [&](int32_t before, size_t after, DependencyKind kind) {
    found.edges.push_back({before, static_cast<int32_t>(after), kind});
  };
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    const auto [last, is_first] =
        last_in.try_emplace(queue_of(timeline, i), static_cast<int32_t>(i));
    if (!is_first && timeline.spans[static_cast<size_t>(last->second)].end <= span.begin)
      add(last->second, i, DependencyKind::data);
    last->second = static_cast<int32_t>(i);
    if (timeline.details.empty() || timeline.details[i].correlation < 0) continue;
    const std::pair key(span.rank, timeline.details[i].correlation);
    if (!is_on_device(timeline, span)) {
      launch_of.try_emplace(key, static_cast<int32_t>(i));
    } else if (const auto launch = launch_of.find(key); launch != launch_of.end()) {
      add(launch->second, i, DependencyKind::control);
    }
  }
  std::sort(found.edges.begin(), found.edges.end(), by_after);
  return found;
}

}  // namespace triplepoint::trace
