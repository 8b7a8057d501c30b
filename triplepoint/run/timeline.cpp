// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/timeline.h"

#include <iterator>
#include <numeric>

#include <fmt/format.h>

namespace triplepoint::run {

namespace {

std::optional<std::string> find_fault(const std::vector<Span>& spans, size_t num_types) {
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (span.end < span.begin) return fmt::format("span {} ends before it begins", i);
    if (span.type < 0 || as_size(span.type) >= num_types)
      return fmt::format("span {} has type {}, but there are {}", i, span.type, num_types);
  }
  return std::nullopt;
}

std::optional<std::string> find_fault(const Pattern& pattern, size_t num_types) {
  for (const PatternPiece& piece : pattern.pieces) {
    if (piece.repeat < 0 || piece.length < Seconds())
      return fmt::format("pattern \"{}\" has a piece of negative length", pattern.name);
    if (auto fault = find_fault(piece.spans, num_types))
      return fmt::format("pattern \"{}\": {}", pattern.name, *fault);
  }
  return std::nullopt;
}

std::optional<std::string> find_fault_of_details(const Timeline& timeline) {
  if (timeline.details.empty()) return std::nullopt;
  if (timeline.details.size() != timeline.spans.size())
    return fmt::format("{} spans have {} details", timeline.spans.size(), timeline.details.size());
  const auto outside = [](int32_t index, size_t size) {
    return index < -1 || (index >= 0 && as_size(index) >= size);
  };
  for (const SpanDetail& detail : timeline.details)
    if (outside(detail.lane, timeline.lanes.size()) ||
        outside(detail.communicator, timeline.communicators.size()))
      return fmt::format("a detail names lane {} of {} and communicator {} of {}", detail.lane,
                         timeline.lanes.size(), detail.communicator, timeline.communicators.size());
  return std::nullopt;
}

/// The items of each rank one after the other, by begin, of ranks that exist.
template <class Item>
std::optional<std::string> find_disorder(const std::vector<Item>& items, int32_t num_ranks,
                                         const char* what) {
  if (!std::ranges::is_sorted(items, by_rank_and_begin))
    return fmt::format("{}s are not sorted by rank and begin", what);
  if (items.empty()) return std::nullopt;
  if (items.front().rank < 0 || items.back().rank >= num_ranks)
    return fmt::format("a {} has a rank outside of 0..{}", what, num_ranks - 1);
  return std::nullopt;
}

void widen(std::optional<Extent>& extent, Instant begin, Instant end) {
  if (!extent) extent = Extent{begin, end};
  extent->begin = std::min(extent->begin, begin);
  extent->end = std::max(extent->end, end);
}

/// Of a pattern's spans and its length, relative to its begin.
Extent extent_of(const Pattern& pattern) {
  std::optional<Extent> all;
  int64_t begin = 0;
  for (const PatternPiece& piece : pattern.pieces) {
    const int64_t length = whole_nanoseconds(piece.length);
    const int64_t last = begin + std::max(0, piece.repeat - 1) * length;
    for (const Span& span : piece.spans)
      widen(all, Instant(begin + span.begin.nanoseconds()), Instant(last + span.end.nanoseconds()));
    begin += piece.repeat * length;
  }
  widen(all, Instant(0), Instant(begin));
  return *all;
}

void insert_ranks(const auto& items, std::set<int32_t>& ranks) {
  int32_t last = -1;
  for (const auto& item : items)
    if (item.rank != last) ranks.insert(last = item.rank);
}

void sort_with_details(Timeline& timeline) {
  if (std::ranges::is_sorted(timeline.spans, by_rank_and_begin)) return;
  std::vector<uint32_t> order(timeline.spans.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return by_rank_and_begin(timeline.spans[a], timeline.spans[b]);
  });
  std::vector<Span> spans;
  std::vector<SpanDetail> details;
  spans.reserve(order.size());
  details.reserve(order.size());
  for (const uint32_t from : order) {
    spans.push_back(timeline.spans[from]);
    details.push_back(timeline.details[from]);
  }
  timeline.spans = std::move(spans);
  timeline.details = std::move(details);
}

}  // namespace

Seconds Pattern::length() const {
  int64_t nanoseconds = 0;
  for (const PatternPiece& piece : pieces)
    nanoseconds += piece.repeat * whole_nanoseconds(piece.length);
  return Instant(nanoseconds) - Instant();
}

int32_t Timeline::intern(const SpanType& type) {
  // A timeline has a few dozen types; a measured one some hundreds. Readers keep their own index.
  const auto found = std::ranges::find(types, type);
  if (found != types.end()) return static_cast<int32_t>(found - types.begin());
  types.push_back(type);
  return static_cast<int32_t>(types.size()) - 1;
}

std::set<int32_t> ranks_of(const Timeline& timeline) {
  std::set<int32_t> ranks;
  insert_ranks(timeline.spans, ranks);
  insert_ranks(timeline.instances, ranks);
  return ranks;
}

Timeline expand(const Timeline& timeline) {
  if (timeline.instances.empty()) return timeline;
  Timeline all;
  all.types = timeline.types;
  all.num_ranks = timeline.num_ranks;
  all.names = timeline.names;
  for_each_span(timeline, -1, [&](const Span& span) { all.spans.push_back(span); });
  sort(all);
  return all;
}

void sort(Timeline& timeline) {
  const auto put_in_order = [](auto& items) {
    if (!std::ranges::is_sorted(items, by_rank_and_begin))
      std::ranges::stable_sort(items, by_rank_and_begin);
  };
  if (timeline.details.empty())
    put_in_order(timeline.spans);
  else
    sort_with_details(timeline);
  put_in_order(timeline.instances);
}

std::optional<std::string> find_fault(const Timeline& timeline) {
  if (auto fault = find_disorder(timeline.spans, timeline.num_ranks, "span")) return fault;
  if (auto fault = find_disorder(timeline.instances, timeline.num_ranks, "instance")) return fault;
  if (auto fault = find_fault(timeline.spans, timeline.types.size())) return fault;
  if (auto fault = find_fault_of_details(timeline)) return fault;
  for (const Pattern& pattern : timeline.patterns)
    if (auto fault = find_fault(pattern, timeline.types.size())) return fault;
  for (const PatternInstance& instance : timeline.instances)
    if (instance.pattern < 0 || as_size(instance.pattern) >= timeline.patterns.size())
      return fmt::format("an instance has pattern {}, but there are {}", instance.pattern,
                         timeline.patterns.size());
  return std::nullopt;
}

Timeline clip(const Timeline& timeline, Instant begin, Instant end) {
  Timeline inside;
  inside.types = timeline.types;
  inside.patterns = timeline.patterns;
  inside.num_ranks = timeline.num_ranks;
  inside.names = timeline.names;
  inside.lanes = timeline.lanes;
  inside.communicators = timeline.communicators;
  const auto keep = [&](const auto& item) { return item.begin >= begin && item.begin < end; };
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    if (!keep(timeline.spans[i])) continue;
    inside.spans.push_back(timeline.spans[i]);
    if (!timeline.details.empty()) inside.details.push_back(timeline.details[i]);
  }
  std::ranges::copy_if(timeline.instances, std::back_inserter(inside.instances), keep);
  return inside;
}

std::optional<Extent> extent(const Timeline& timeline) {
  std::optional<Extent> all;
  for (const Span& span : timeline.spans)
    widen(all, span.begin, span.end);
  const std::vector<Extent> of_pattern =
      mapped(timeline.patterns, [](const Pattern& pattern) { return extent_of(pattern); });
  for (const PatternInstance& instance : timeline.instances) {
    const Extent& pattern = of_pattern[as_size(instance.pattern)];
    const int64_t begin = instance.begin.nanoseconds();
    widen(all, Instant(begin + pattern.begin.nanoseconds()),
          Instant(begin + pattern.end.nanoseconds()));
  }
  return all;
}

}  // namespace triplepoint::run
