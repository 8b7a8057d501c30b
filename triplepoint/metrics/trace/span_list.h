// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// The spans of a timeline one by one, instances expanded: rank by rank in order of their begin.
/// Span i is spans[i] of run::expand(timeline), at 16 bytes instead of 64.
class SpanList {
 public:
  /// The timeline is sound, and outlives the list.
  explicit SpanList(const run::Timeline&);

  const run::Timeline& timeline() const { return timeline_; }
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  int64_t begin(int32_t i) const { return entry(i).begin; }  // ns, as the other times
  int64_t end(int32_t i) const { return entry(i).begin + duration(i); }
  int64_t duration(int32_t i) const {
    return work(i).end.nanoseconds() - work(i).begin.nanoseconds();
  }
  int32_t rank(int32_t i) const { return entry(i).rank; }
  const run::SpanType& type(int32_t i) const { return timeline_.types[as_size(work(i).type)]; }
  /// What holds wherever the span runs: type, wait, bytes, flops. In a pattern, its times are
  /// relative and its rank, stage, microbatch and layer are not known.
  const run::Span& work(int32_t i) const {
    const int32_t span = entry(i).span;
    return span >= 0 ? timeline_.spans[as_size(span)] : *pieces_[as_size(-1 - span)];
  }
  /// With its own times and rank.
  run::Span at(int32_t i) const {
    run::Span span = work(i);
    span.begin = Instant(begin(i));
    span.end = Instant(end(i));
    span.rank = rank(i);
    return span;
  }
  /// The spans of one rank: from the first up to, not including, the second.
  std::pair<int32_t, int32_t> of_rank(int32_t rank) const {
    return {first_[as_size(rank)], first_[as_size(rank) + 1]};
  }
  /// Absent in a timeline that has none, as one with instances.
  const run::SpanDetail* detail(int32_t i) const {
    const bool has_none = timeline_.details.empty() || !timeline_.instances.empty();
    return has_none ? nullptr : &timeline_.details[as_size(i)];
  }

 private:
  struct Entry {
    int64_t begin = 0;
    int32_t span = 0;  // of the timeline; below zero: -1 - index into pieces_
    int32_t rank = 0;
  };
  const Entry& entry(int32_t i) const { return entries_[as_size(i)]; }
  void add_instance(const run::PatternInstance&, int32_t first_piece_span);

  const run::Timeline& timeline_;
  std::vector<const run::Span*> pieces_;  // spans of all patterns, one after the other
  std::vector<Entry> entries_;
  std::vector<int32_t> first_;  // of each rank, and the end
};

}  // namespace triplepoint::metrics
