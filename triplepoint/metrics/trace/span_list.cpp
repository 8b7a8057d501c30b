// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/span_list.h"

#include <algorithm>
#include <limits>

#include "triplepoint/base/result.h"

#include "triplepoint/run/trace_tracks.h"

namespace triplepoint::metrics {

SpanList::SpanList(const run::Timeline& timeline) : timeline_(timeline) {
  std::vector<int32_t> first_of_pattern;
  for (const run::Pattern& pattern : timeline.patterns) {
    first_of_pattern.push_back(static_cast<int32_t>(pieces_.size()));
    for (const run::PatternPiece& piece : pattern.pieces)
      for (const run::Span& span : piece.spans)
        pieces_.push_back(&span);
  }
  const int64_t count = run::count_spans(timeline);
  TPT_EXPECT(count <= std::numeric_limits<int32_t>::max());
  entries_.reserve(as_size(count));
  const auto by_begin = [](const Entry& a, const Entry& b) { return a.begin < b.begin; };
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    first_.push_back(size());
    const auto [span, spans_end] = run::detail::items_of_rank(timeline.spans, rank);
    const auto [instance, instances_end] = run::detail::items_of_rank(timeline.instances, rank);
    const run::PatternInstance* next = instance;
    for (const run::Span* single = span; single != spans_end; ++single) {
      for (; next != instances_end && next->begin < single->begin; ++next)
        add_instance(*next, first_of_pattern[as_size(next->pattern)]);
      entries_.push_back({single->begin.nanoseconds(),
                          static_cast<int32_t>(single - timeline.spans.data()), rank});
    }
    for (; next != instances_end; ++next)
      add_instance(*next, first_of_pattern[as_size(next->pattern)]);
    // As run::expand() sorts: equal begins stay in the order of single spans and instances.
    const auto own = entries_.begin() + first_.back();
    if (!std::is_sorted(own, entries_.end(), by_begin))
      std::stable_sort(own, entries_.end(), by_begin);
  }
  first_.push_back(size());
}

void SpanList::add_instance(const run::PatternInstance& instance, int32_t first_piece_span) {
  int64_t begin = instance.begin.nanoseconds();
  int32_t piece_span = first_piece_span;
  for (const run::PatternPiece& piece : timeline_.patterns[as_size(instance.pattern)].pieces) {
    const int64_t length = run::whole_nanoseconds(piece.length);
    for (int32_t i = 0; i < piece.repeat; ++i, begin += length)
      for (size_t s = 0; s < piece.spans.size(); ++s)
        entries_.push_back({begin + piece.spans[s].begin.nanoseconds(),
                            -1 - (piece_span + static_cast<int32_t>(s)), instance.rank});
    piece_span += static_cast<int32_t>(piece.spans.size());
  }
}

}  // namespace triplepoint::metrics
