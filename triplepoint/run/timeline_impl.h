// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "triplepoint/run/timeline.h"

namespace triplepoint::run {

/// A length in the whole nanoseconds in which patterns count.
inline int64_t whole_nanoseconds(Seconds length) {
  return (Instant() + length).nanoseconds();
}

namespace detail {

template <class Visit>
void visit_piece(const PatternPiece& piece, const PatternInstance& instance, int64_t begin,
                 Visit&& visit) {
  const int64_t length = whole_nanoseconds(piece.length);
  for (int32_t i = 0; i < piece.repeat; ++i, begin += length) {
    for (const Span& relative : piece.spans) {
      Span span = relative;
      span.begin = Instant(begin + relative.begin.nanoseconds());
      span.end = Instant(begin + relative.end.nanoseconds());
      span.rank = instance.rank;
      span.stage = instance.stage;
      span.microbatch = instance.microbatch;
      if (piece.first_layer >= 0) span.layer = piece.first_layer + i;
      visit(std::as_const(span));
    }
  }
}

template <class Visit>
void visit_instance(const Timeline& timeline, const PatternInstance& instance, Visit&& visit) {
  int64_t begin = instance.begin.nanoseconds();
  for (const PatternPiece& piece :
       timeline.patterns[static_cast<size_t>(instance.pattern)].pieces) {
    visit_piece(piece, instance, begin, visit);
    begin += piece.repeat * whole_nanoseconds(piece.length);
  }
}

/// Where the items of one rank lie in a vector that is sorted by rank. All of them for -1.
template <class Item>
std::pair<const Item*, const Item*> items_of_rank(const std::vector<Item>& items, int32_t rank) {
  const Item* first = items.data();
  const Item* last = first + items.size();
  if (rank < 0) return {first, last};
  const auto before = [](const Item& item, int32_t r) { return item.rank < r; };
  const Item* begin = std::lower_bound(first, last, rank, before);
  return {begin, std::lower_bound(begin, last, rank + 1, before)};
}

}  // namespace detail

template <class Visit>
void for_each_span(const Timeline& timeline, int32_t rank, Visit&& visit) {
  auto [span, spans_end] = detail::items_of_rank(timeline.spans, rank);
  auto [instance, instances_end] = detail::items_of_rank(timeline.instances, rank);
  const auto span_comes_first = [](const Span& s, const PatternInstance& i) {
    return std::pair(s.rank, s.begin) <= std::pair(i.rank, i.begin);
  };
  while (span != spans_end || instance != instances_end) {
    if (instance == instances_end || (span != spans_end && span_comes_first(*span, *instance)))
      visit(*span++);
    else
      detail::visit_instance(timeline, *instance++, visit);
  }
}

}  // namespace triplepoint::run
