// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/device_order.h"

#include <algorithm>

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

bool has_host_spans(const std::vector<run::SpanType>& types, const std::vector<run::Span>& spans) {
  return std::ranges::any_of(spans, [&](const run::Span& span) {
    return types[as_size(span.type)].kind == run::SpanKind::host;
  });
}

}  // namespace

bool DeviceOrder::holds(const run::Timeline& timeline) {
  if (!timeline.details.empty() || has_host_spans(timeline.types, timeline.spans)) return false;
  for (const run::Pattern& pattern : timeline.patterns)
    for (const run::PatternPiece& piece : pattern.pieces)
      if (has_host_spans(timeline.types, piece.spans)) return false;
  return true;
}

DeviceOrder::DeviceOrder(const SpanList& spans, const CollectiveMatch& match) : spans_(spans) {
  make_lanes();
  for (const Lane& lane : lanes_)
    for (const int32_t span : lane.spans)
      if (last_ < 0 || spans_.end(span) > spans_.end(last_)) last_ = span;
  add_sync_points(match);
}

bool DeviceOrder::is_node(int32_t span) const {
  return is_kernel(spans_.type(span).kind) && spans_.duration(span) > 0;
}

void DeviceOrder::make_lanes() {
  constexpr int streams = 3;
  for (int32_t rank = 0; rank < spans_.timeline().num_ranks; ++rank) {
    first_lane_.push_back(lanes_.size());
    std::vector<int32_t> of_stream[streams];
    const auto [first, last] = spans_.of_rank(rank);
    for (int32_t i = first; i < last; ++i)
      if (is_node(i)) of_stream[as_size(spans_.type(i).stream)].push_back(i);
    for (int stream = 0; stream < streams; ++stream) {
      if (of_stream[stream].empty()) continue;
      lanes_.push_back(
          {rank, static_cast<run::Stream>(stream), std::move(of_stream[stream]), {}, {}});
      order_by_end(lanes_.back());
    }
  }
  first_lane_.push_back(lanes_.size());
}

void DeviceOrder::order_by_end(Lane& lane) const {
  const auto key = [&](int32_t i) { return std::pair(spans_.begin(i), -spans_.end(i)); };
  const auto end = [&](int32_t i) { return spans_.end(i); };
  if (!std::ranges::is_sorted(lane.spans, {}, key)) std::ranges::stable_sort(lane.spans, {}, key);
  if (std::ranges::is_sorted(lane.spans, {}, end)) return;
  int32_t before = -1;
  for (const int32_t span : lane.spans) {
    lane.before.push_back(before);
    if (before < 0 || end(before) <= end(span)) before = span;
  }
  lane.by_end = lane.spans;
  std::ranges::stable_sort(lane.by_end, {}, end);
}

void DeviceOrder::add_sync_points(const CollectiveMatch& match) {
  for (const Collective& collective : match.collectives) {
    if (!collective.across_ranks()) continue;
    SyncPoint sync_point{.arrival = collective.last_begin()};
    for (const CollectivePart& part : collective.parts) {
      if (!is_node(part.span) || part.end <= sync_point.arrival) break;
      sync_point.nodes.push_back(part.span);
      if (part.rank == collective.last_starter()) sync_point.last = part.span;
    }
    if (sync_point.nodes.size() < collective.parts.size()) continue;
    for (const int32_t span : sync_point.nodes)
      sync_of_span_.emplace_back(span, static_cast<int32_t>(sync_points_.size()));
    sync_points_.push_back(std::move(sync_point));
  }
  std::ranges::sort(sync_of_span_);
}

const DeviceOrder::Lane& DeviceOrder::lane_of(int32_t span) const {
  const auto rank = as_size(spans_.rank(span));
  const run::Stream stream = spans_.type(span).stream;
  return *std::ranges::find(lanes_.begin() + static_cast<std::ptrdiff_t>(first_lane_[rank]),
                            lanes_.end(), stream, &Lane::stream);
}

int32_t DeviceOrder::before_in_lane(int32_t span) const {
  const Lane& lane = lane_of(span);
  auto place = std::ranges::lower_bound(lane.spans, spans_.begin(span), {},
                                        [&](int32_t i) { return spans_.begin(i); });
  while (*place != span)
    ++place;
  if (place == lane.spans.begin()) return -1;
  const int32_t before =
      lane.before.empty() ? *(place - 1) : lane.before[as_size(place - lane.spans.begin())];
  return spans_.end(before) <= spans_.begin(span) ? before : -1;
}

/// Of the rank's other lanes, the span that ended last, not after `time`, later than `after`.
int32_t DeviceOrder::last_of_others(int32_t span, int64_t time, int64_t after) const {
  const auto rank = as_size(spans_.rank(span));
  const Lane& own = lane_of(span);
  int32_t last = -1;
  for (size_t i = first_lane_[rank]; i < first_lane_[rank + 1]; ++i) {
    if (&lanes_[i] == &own) continue;
    const std::vector<int32_t>& ended =
        lanes_[i].by_end.empty() ? lanes_[i].spans : lanes_[i].by_end;
    const auto next =
        std::ranges::upper_bound(ended, time, {}, [&](int32_t other) { return spans_.end(other); });
    if (next == ended.begin() || spans_.end(*(next - 1)) <= after) continue;
    // Of equal ends, that of the later lane.
    if (last < 0 || spans_.end(*(next - 1)) >= spans_.end(last)) last = *(next - 1);
  }
  return last;
}

Node DeviceOrder::node(int32_t span) const {
  Node node{.begin = spans_.begin(span),
            .end = spans_.end(span),
            .rank = spans_.rank(span),
            .span = span};
  const auto sync = std::ranges::lower_bound(sync_of_span_, std::pair(span, 0));
  if (sync != sync_of_span_.end() && sync->first == span) node.sync_point = sync->second;
  return node;
}

Binding DeviceOrder::binding(int32_t span) const {
  Binding latest;
  const int64_t begin = spans_.begin(span);
  if (const int32_t before = before_in_lane(span); before >= 0)
    latest = {Reason::lane, before, spans_.end(before)};
  if (latest.time >= begin) return latest;
  if (const int32_t other = last_of_others(span, begin, latest.time);
      other >= 0 && spans_.end(other) > latest.time)
    latest = {Reason::other, other, spans_.end(other)};
  return latest;
}

std::string_view DeviceOrder::label(const Node& node) const {
  return label_of(spans_.type(node.span));
}

}  // namespace triplepoint::metrics
