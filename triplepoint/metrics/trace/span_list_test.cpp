// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/span_list.h"

#include <tuple>

#include <doctest/doctest.h>

#include "triplepoint/metrics/trace/critical_path.h"
#include "triplepoint/metrics/trace/device_order.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

run::Span random_span(Rng& rng, int64_t latest) {
  constexpr int32_t types[] = {gemm, norm, all_reduce, all_reduce, forward};
  const int64_t begin = rng.upto(latest), length = rng.upto(6);
  run::Span span{Instant(begin), Instant(begin + length), types[rng.upto(4)]};
  if (span.type == all_reduce) {
    span.wait = as_real(rng.upto(length)) * unit::ns;
    span.bytes = as_real(rng.upto(2)) * unit::B;
  }
  return span;
}

/// As simulated ones: patterns, no details. Times are small, so that many are equal.
run::Timeline random_patterns(uint64_t seed) {
  Rng rng(seed);
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = static_cast<int32_t>(1 + rng.upto(3));
  for (int pattern = 0; pattern < 2; ++pattern) {
    run::Pattern& made = timeline.patterns.emplace_back();
    for (int64_t piece = rng.upto(2); piece >= 0; --piece) {
      made.pieces.push_back({.repeat = static_cast<int32_t>(1 + rng.upto(2)),
                             .length = as_real(5 + rng.upto(5)) * unit::ns});
      for (int64_t span = rng.upto(3); span >= 0; --span)
        made.pieces.back().spans.push_back(random_span(rng, 6));
    }
  }
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    for (int64_t i = rng.upto(4); i > 0; --i)
      timeline.instances.push_back(
          {Instant(rng.upto(60)), static_cast<int32_t>(rng.upto(1)), rank, rank});
    for (int64_t i = rng.upto(8); i > 0; --i) {
      timeline.spans.push_back(random_span(rng, 80));
      timeline.spans.back().rank = rank;
    }
  }
  run::sort(timeline);
  return timeline;
}

constexpr uint64_t seeds = 3000;

TEST_CASE("a list of spans has those of the expanded timeline, in its order") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const run::Timeline timeline = random_patterns(seed), expanded = run::expand(timeline);
    const SpanList list(timeline);
    REQUIRE(as_size(list.size()) == expanded.spans.size());
    for (int32_t i = 0; i < list.size(); ++i) {
      const run::Span &span = expanded.spans[as_size(i)], own = list.at(i);
      REQUIRE(std::tuple(own.begin, own.end, own.type, own.rank) ==
              std::tuple(span.begin, span.end, span.type, span.rank));
      REQUIRE(std::tuple(own.wait, own.bytes) == std::tuple(span.wait, span.bytes));
      REQUIRE(i >= list.of_rank(span.rank).first);
      REQUIRE(i < list.of_rank(span.rank).second);
    }
  }
}

auto all_of(const Collective& c) {
  std::vector<std::tuple<int32_t, int32_t, int64_t, int64_t>> parts;
  for (const CollectivePart& part : c.parts)
    parts.emplace_back(part.rank, part.span, part.begin, part.end);
  return std::tuple(c.label, c.name, c.communicator, c.sequence, c.size, c.count, c.group_size,
                    c.is_message, c.sender, c.known_arrival, parts);
}

TEST_CASE("collectives of one span are the same whether they are kept or made when asked for") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const run::Timeline timeline = random_patterns(seed);
    const SpanList spans(timeline);
    const CollectiveMatch lean = match_collectives(spans), all = match_collectives(timeline);
    CHECK(lean.unmatched == all.unmatched);
    size_t next = 0;
    for_each_collective(spans, lean, [&](const Collective& collective) {
      REQUIRE(next < all.collectives.size());
      REQUIRE(all_of(collective) == all_of(all.collectives[next++]));
    });
    CHECK(next == all.collectives.size());
  }
}

TEST_CASE("the path of devices alone is that of the whole graph") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const run::Timeline timeline = random_patterns(seed), expanded = run::expand(timeline);
    REQUIRE(DeviceOrder::holds(timeline));
    const SpanList spans(timeline);
    const CriticalPath lean = critical_path(spans, match_collectives(spans)),
                       whole = critical_path(expanded);
    REQUIRE(lean.pieces.size() == whole.pieces.size());
    for (size_t i = 0; i < lean.pieces.size(); ++i) {
      const PathPiece &a = lean.pieces[i], &b = whole.pieces[i];
      REQUIRE(std::tuple(a.begin, a.end, a.rank, a.label, a.span) ==
              std::tuple(b.begin, b.end, b.rank, b.label, b.span));
    }
    CHECK(lean.not_followed == whole.not_followed);
    CHECK(lean.shares.size() == whole.shares.size());
  }
}

auto all_of(const LateStart& s) {
  return std::tuple(s.rank, s.start_spread, s.lead, s.waits, s.end_spread, s.shortest, s.longest,
                    s.culprit, s.own_delay, s.kernels, s.gaps, s.slowest, s.by_order);
}
auto all_of(const RankLateness& r) {
  return std::tuple(r.rank, r.collectives, r.times_last, r.caused, r.alone, r.waited, r.blamed,
                    r.delay, r.in_communication);
}

TEST_CASE("who was late is the same whether collectives of one span are kept or not") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const run::Timeline timeline = random_patterns(seed);
    const SpanList spans(timeline);
    const LateRanks lean = find_late_ranks(spans, match_collectives(spans)),
                    all = find_late_ranks(timeline, match_collectives(timeline));
    CHECK(lean.straggler == all.straggler);
    REQUIRE(lean.starts.size() == all.starts.size());
    for (size_t i = 0; i < lean.starts.size(); ++i)
      CHECK(all_of(lean.starts[i]) == all_of(all.starts[i]));
    REQUIRE(lean.ranks.size() == all.ranks.size());
    for (size_t i = 0; i < lean.ranks.size(); ++i)
      CHECK(all_of(lean.ranks[i]) == all_of(all.ranks[i]));
  }
}

}  // namespace
}  // namespace triplepoint::metrics
