// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "triplepoint/base/result.h"

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// The spans of a timeline without instances by number; times in ns.
class SpanList {
 public:
  /// The timeline is sound, and outlives the list.
  explicit SpanList(const run::Timeline& timeline) : timeline_(timeline) {
    TPT_EXPECT(timeline.instances.empty());
  }

  const run::Timeline& timeline() const { return timeline_; }
  int32_t size() const { return static_cast<int32_t>(timeline_.spans.size()); }
  const run::Span& at(int32_t i) const { return timeline_.spans[static_cast<size_t>(i)]; }
  int64_t begin(int32_t i) const { return at(i).begin.nanoseconds(); }
  int64_t end(int32_t i) const { return at(i).end.nanoseconds(); }
  int64_t duration(int32_t i) const { return end(i) - begin(i); }
  int32_t rank(int32_t i) const { return at(i).rank; }
  const run::SpanType& type(int32_t i) const {
    return timeline_.types[static_cast<size_t>(at(i).type)];
  }
  /// The spans of one rank: from the first up to, not including, the second.
  std::pair<int32_t, int32_t> of_rank(int32_t rank) const {
    const auto [first, last] = run::detail::items_of_rank(timeline_.spans, rank);
    const run::Span* const all = timeline_.spans.data();
    return {static_cast<int32_t>(first - all), static_cast<int32_t>(last - all)};
  }
  /// Absent in a timeline that has none.
  const run::SpanDetail* detail(int32_t i) const {
    return timeline_.details.empty() ? nullptr : &timeline_.details[static_cast<size_t>(i)];
  }

 private:
  const run::Timeline& timeline_;
};

}  // namespace triplepoint::metrics
