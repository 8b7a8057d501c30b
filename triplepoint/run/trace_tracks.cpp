// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/trace_tracks.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace triplepoint::run {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> units = {
    {{"_w", "W"}, {"_c", "C"}, {"_mhz", "MHz"}, {"_j", "J"}, {"_bytes", "B"}}};

}  // namespace

TraceCounter describe_counter(const Run& run, const Series& series) {
  TraceCounter counter{
      .owner = fmt::format("{} {}", series.of_node ? "node" : "device", series.device),
      .name = series.signal};
  for (const auto& [ending, unit] : units) {
    const std::string_view signal = series.signal;
    if (signal.size() <= ending.size() || !signal.ends_with(ending)) continue;
    counter.name = std::string(signal.substr(0, signal.size() - ending.size()));
    counter.unit = std::string(unit);
  }
  if (series.of_node) return counter;
  for (const Device& device : run.devices)
    if (device.index == series.device) counter.rank = device.rank;
  return counter;
}

namespace {

constexpr int64_t most_slices = 2'000'000;
constexpr int32_t num_streams = 4;  // passes, compute, communication, host
constexpr std::array<std::string_view, num_streams> stream_names = {"passes", "compute",
                                                                    "communication", "host"};

int32_t stream_of(const SpanType& type) {
  if (type.kind == SpanKind::pass || type.kind == SpanKind::step) return 0;
  return 1 + static_cast<int32_t>(type.stream);
}

/// Tracks of lanes have their own numbers: first_lane_track + lane * lane_tracks + n.
constexpr int32_t first_lane_track = 1 << 16, lane_tracks = 4;

/// Hands out tracks of one lane: the first in which a span lies behind the others or inside the one
/// that is open. Spans come in order of (begin, -end).
class LaneTracks {
 public:
  int32_t take(const Span& span) {
    for (int32_t i = 0; i + 1 < lane_tracks; ++i)
      if (fits(open_[as_size(i)], span)) return i;
    return lane_tracks - 1;
  }

 private:
  static bool fits(std::vector<Instant>& open, const Span& span) {
    while (!open.empty() && open.back() <= span.begin)
      open.pop_back();
    if (!open.empty() && open.back() < span.end) return false;
    open.push_back(span.end);
    return true;
  }
  std::array<std::vector<Instant>, lane_tracks> open_;
};

/// Hands out tracks: the first of a stream that is free again.
class Lanes {
 public:
  int32_t take(int32_t stream, const Span& span) {
    auto& free_from = free_from_[as_size(stream)];
    const auto free =
        std::ranges::find_if(free_from, [&](Instant since) { return since <= span.begin; });
    const auto lane = static_cast<int32_t>(free - free_from.begin());
    if (free == free_from.end())
      free_from.push_back(span.end);
    else
      *free = span.end;
    return lane * num_streams + stream;
  }

 private:
  std::array<std::vector<Instant>, num_streams> free_from_;
};

int64_t first_instant(const Run& run) {
  int64_t first = 0;
  if (const auto shown = extent(run.timeline)) first = std::min(first, shown->begin.nanoseconds());
  for (const Series& series : run.series)
    if (!series.times.empty()) first = std::min(first, series.times.front().nanoseconds());
  return first;
}

std::optional<int32_t> stage_of(const Timeline& timeline, int32_t rank) {
  const auto [instance, last] = detail::items_of_rank(timeline.instances, rank);
  if (instance != last && instance->stage >= 0) return instance->stage;
  const auto [span, end] = detail::items_of_rank(timeline.spans, rank);
  if (span != end && span->stage >= 0) return span->stage;
  return std::nullopt;
}

/// Slices of the spans whose lane is known; the others are added to `rest`.
void place_on_lanes(const Timeline& timeline, std::pair<const Span*, const Span*> spans,
                    const std::vector<int32_t>& lanes, std::vector<Span>& rest,
                    std::vector<TraceSlice>& slices) {
  std::vector<std::pair<const Span*, int32_t>> order;  // with the place of the lane in `lanes`
  for (const Span* span = spans.first; span != spans.second; ++span) {
    const auto i = as_size(span - timeline.spans.data());
    const auto lane = std::lower_bound(lanes.begin(), lanes.end(), timeline.details[i].lane);
    if (lane == lanes.end() || *lane != timeline.details[i].lane)
      rest.push_back(*span);
    else
      order.emplace_back(span, static_cast<int32_t>(lane - lanes.begin()));
  }
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, b.first->end) < std::pair(b.first->begin, a.first->end);
  });
  std::vector<LaneTracks> nests(lanes.size());
  for (const auto& [span, lane] : order) {
    const int32_t nth = nests[as_size(lane)].take(*span);
    slices.push_back({*span, first_lane_track + lane * lane_tracks + nth,
                      &timeline.details[as_size(span - timeline.spans.data())]});
  }
}

}  // namespace

int64_t count_spans(const Timeline& timeline) {
  std::vector<int64_t> of_pattern;
  of_pattern.reserve(timeline.patterns.size());
  for (const Pattern& pattern : timeline.patterns) {
    int64_t count = 0;
    for (const PatternPiece& piece : pattern.pieces)
      count += piece.repeat * static_cast<int64_t>(piece.spans.size());
    of_pattern.push_back(count);
  }
  auto count = static_cast<int64_t>(timeline.spans.size());
  for (const PatternInstance& instance : timeline.instances)
    count += of_pattern[as_size(instance.pattern)];
  return count;
}

TraceTracks::TraceTracks(const Run& run, TraceDetail detail)
    : run_(run), first_(first_instant(run)) {
  kernels_ = detail == TraceDetail::kernels ||
             (detail == TraceDetail::automatic && count_spans(run.timeline) <= most_slices);
}

std::vector<TraceSlice> TraceTracks::slices_of(int32_t rank) const {
  const Timeline& timeline = run_.timeline;
  std::vector<Span> spans;
  const auto [instance, last] = detail::items_of_rank(timeline.instances, rank);
  for (const PatternInstance* i = instance; i != last; ++i) {
    const Seconds length = timeline.patterns[as_size(i->pattern)].length();
    spans.push_back({.begin = i->begin,
                     .end = i->begin + length,
                     .type = static_cast<int32_t>(timeline.types.size()) + i->pattern,
                     .rank = rank,
                     .stage = i->stage,
                     .microbatch = i->microbatch});
  }
  std::vector<TraceSlice> slices;
  const auto [single, end] = detail::items_of_rank(timeline.spans, rank);
  if (!timeline.details.empty())
    place_on_lanes(timeline, {single, end}, lanes_of(rank), spans, slices);
  else if (kernels_)
    for_each_span(timeline, rank, [&](const Span& span) { spans.push_back(span); });
  else
    spans.insert(spans.end(), single, end);
  std::ranges::stable_sort(spans, {}, &Span::begin);
  slices.reserve(slices.size() + spans.size());
  Lanes lanes;
  for (const Span& span : spans) {
    const auto type = as_size(span.type);
    const int32_t stream = type < timeline.types.size() ? stream_of(timeline.types[type]) : 0;
    slices.push_back({span, lanes.take(stream, span)});
  }
  std::ranges::stable_sort(slices, {}, &TraceSlice::track);
  return slices;
}

std::vector<int32_t> TraceTracks::lanes_of(int32_t rank) const {
  std::vector<int32_t> lanes;
  for (size_t i = 0; i < run_.timeline.lanes.size(); ++i)
    if (run_.timeline.lanes[i].rank == rank) lanes.push_back(static_cast<int32_t>(i));
  return lanes;
}

std::string TraceTracks::rank_name(int32_t rank) const {
  std::string where;
  for (const Device& device : run_.devices)
    if (device.rank == rank) where = fmt::format("node {}, gpu {}", device.node, device.local);
  if (const auto stage = stage_of(run_.timeline, rank))
    where += fmt::format("{}stage {}", where.empty() ? "" : ", ", *stage);
  return where.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, where);
}

std::string TraceTracks::track_name(int32_t rank, int32_t track) const {
  const bool of_lane = track >= first_lane_track;
  const int32_t number = of_lane ? (track - first_lane_track) / lane_tracks : track % num_streams;
  const int32_t nth = of_lane ? (track - first_lane_track) % lane_tracks : track / num_streams;
  std::string name(of_lane ? "" : stream_names[as_size(number)]);
  if (of_lane) {
    const int32_t lane = lanes_of(rank)[as_size(number)];
    name = run_.timeline.lanes[as_size(lane)].name;
    if (name.empty()) name = fmt::format("lane {}", run_.timeline.lanes[as_size(lane)].number);
  }
  return nth == 0 ? name : fmt::format("{} {}", name, nth + 1);
}

std::string TraceTracks::slice_name(int32_t type) const {
  const auto i = as_size(type);
  const Timeline& timeline = run_.timeline;
  return i < timeline.types.size() ? timeline.types[i].name
                                   : timeline.patterns[i - timeline.types.size()].name;
}

int32_t TraceTracks::num_slice_names() const {
  return static_cast<int32_t>(run_.timeline.types.size() + run_.timeline.patterns.size());
}

uint64_t TraceTracks::since_first(Instant when) const {
  return static_cast<uint64_t>(when.nanoseconds() - first_);
}

}  // namespace triplepoint::run
