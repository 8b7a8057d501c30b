// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/trace_lanes.h"

#include <algorithm>
#include <tuple>

#include "triplepoint/run/issued.h"

#include "triplepoint/metrics/trace/kernel_class.h"

namespace triplepoint::metrics {
namespace {

std::string_view name_of(run::Stream stream) {
  return word_for<run::Stream::host>({"compute", "communication", "host"}, stream);
}

/// Rank first; spans without a lane stand behind those with one.
using LaneKey = std::tuple<int32_t, bool, int32_t>;

LaneKey key_of(const SpanList& spans, int32_t i) {
  const run::SpanDetail* detail = spans.detail(i);
  if (detail != nullptr && detail->lane >= 0) return {spans.rank(i), false, detail->lane};
  return {spans.rank(i), true, static_cast<int32_t>(spans.type(i).stream)};
}

LaneOfSpans lane_of(const run::Timeline& timeline, const LaneKey& key) {
  const auto [rank, unnumbered, index] = key;
  if (unnumbered) {
    const auto stream = static_cast<run::Stream>(index);
    return {.rank = rank, .stream = stream, .name = std::string(name_of(stream))};
  }
  const run::Lane& lane = timeline.lanes[as_size(index)];
  return {.rank = rank, .stream = lane.stream, .number = lane.number, .name = lane.name};
}

bool belongs(const run::SpanType& type, LaneKind kind) {
  if (kind == LaneKind::device) return is_kernel(type.kind);
  return type.kind == run::SpanKind::host && !run::is_untimed(type);
}

class CallStack {
 public:
  void open(int64_t begin, int64_t end, int32_t span) {
    close_until(begin);
    if (!open_.empty()) {
      book(begin);
      end = std::min(end, open_.back().end);
    }
    open_.push_back({begin, end, span});
    now_ = begin;
  }
  std::vector<HostSegment> finish() {
    close_until(INT64_MAX);
    return std::move(segments_);
  }

 private:
  void close_until(int64_t when) {
    while (!open_.empty() && open_.back().end <= when) {
      book(open_.back().end);
      open_.pop_back();
    }
  }
  /// The innermost open span had the time from `now_` on.
  void book(int64_t until) {
    if (now_ < until) segments_.push_back({now_, until, open_.back().span});
    now_ = std::max(now_, until);
  }

  std::vector<HostSegment> open_, segments_;
  int64_t now_ = 0;
};

}  // namespace

std::vector<LaneOfSpans> lanes_of(const SpanList& spans, LaneKind kind) {
  std::map<LaneKey, LaneOfSpans> lanes;
  LaneKey last_key{-1, false, -1};
  LaneOfSpans* last = nullptr;  // neighbours often share their lane
  for (int32_t i = 0; i < spans.size(); ++i) {
    if (!belongs(spans.type(i), kind)) continue;
    const LaneKey key = key_of(spans, i);
    if (last == nullptr || key != last_key) {
      last = &lanes.try_emplace(key, lane_of(spans.timeline(), key)).first->second;
      last_key = key;
    }
    last->spans.push_back(i);
  }
  std::vector<LaneOfSpans> list;
  list.reserve(lanes.size());
  for (auto& [key, lane] : lanes) {
    std::ranges::stable_sort(lane.spans, [&](int32_t a, int32_t b) {
      return std::pair(spans.begin(a), spans.end(b)) < std::pair(spans.begin(b), spans.end(a));
    });
    list.push_back(std::move(lane));
  }
  return list;
}

std::map<int32_t, LaneOfSpans> busiest_lanes(const SpanList& spans, LaneKind kind) {
  std::map<int32_t, LaneOfSpans> busiest;
  for (LaneOfSpans& lane : lanes_of(spans, kind)) {
    LaneOfSpans& best = busiest[lane.rank];
    if (lane.spans.size() > best.spans.size()) best = std::move(lane);
  }
  return busiest;
}

std::vector<int32_t> launches_of(const run::Timeline& timeline) {
  std::vector<int32_t> launches(timeline.spans.size(), -1);
  if (timeline.details.empty()) return launches;
  struct Call {
    int32_t rank;
    int64_t correlation, begin, end;
    int32_t span;
    auto key() const { return std::pair(rank, correlation); }
  };
  std::vector<Call> calls;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    if (timeline.details[i].correlation < 0 || type_of(timeline, span).kind != run::SpanKind::host)
      continue;
    calls.push_back({span.rank, timeline.details[i].correlation, span.begin.nanoseconds(),
                     span.end.nanoseconds(), static_cast<int32_t>(i)});
  }
  std::ranges::sort(calls, [](const Call& a, const Call& b) {
    return std::tuple(a.rank, a.correlation, a.end, a.span) <
           std::tuple(b.rank, b.correlation, b.end, b.span);
  });
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    if (timeline.details[i].correlation < 0 || !is_kernel(type_of(timeline, span).kind)) continue;
    const auto key = std::pair(span.rank, timeline.details[i].correlation);
    auto call = std::lower_bound(calls.begin(), calls.end(), key,
                                 [](const Call& c, const auto& k) { return c.key() < k; });
    if (call == calls.end() || call->key() != key) continue;
    // Captures in one file number their calls alike: the last one before the kernel is meant.
    for (auto later = call + 1; later != calls.end() && later->key() == key; ++later)
      if (later->begin > call->end && later->begin <= span.begin.nanoseconds()) call = later;
    launches[i] = call->span;
  }
  return launches;
}

bool knows_launches(const std::vector<int32_t>& launches) {
  return std::ranges::any_of(launches, [](int32_t launch) { return launch >= 0; });
}

std::vector<HostSegment> innermost_spans(const SpanList& spans, const LaneOfSpans& lane) {
  CallStack nest;
  for (int32_t index : lane.spans)
    nest.open(spans.begin(index), spans.end(index), index);
  return nest.finish();
}

}  // namespace triplepoint::metrics
