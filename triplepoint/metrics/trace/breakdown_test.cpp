// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/breakdown.h"

#include <doctest/doctest.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

constexpr int64_t earliest = -40, latest = 220;

/// What runs on one rank's device at every single nanosecond.
struct Moment {
  bool compute = false, communication = false, copy = false;
  bool any() const { return compute || communication || copy; }
};
std::vector<Moment> moments_of(const run::Timeline& timeline, int32_t rank) {
  std::vector<Moment> moments(latest - earliest);
  for (const run::Span& span : timeline.spans) {
    if (span.rank != rank) continue;
    for (int64_t t = span.begin.nanoseconds(); t < span.end.nanoseconds(); ++t) {
      Moment& moment = moments[as_size(t - earliest)];
      if (span.type <= unnamed) moment.compute = true;
      if (span.type == all_reduce) moment.communication = true;
      if (span.type == memcpy_) moment.copy = true;
    }
  }
  return moments;
}

/// When the span's launch began, by looking at all spans.
std::optional<int64_t> launched_at(const run::Timeline& timeline, size_t index) {
  std::optional<int64_t> begin, end;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& call = timeline.spans[i];
    if (call.type != launch || call.rank != timeline.spans[index].rank ||
        timeline.details[i].correlation != timeline.details[index].correlation)
      continue;
    if (end && *end <= call.end.nanoseconds()) continue;
    begin = call.begin.nanoseconds();
    end = call.end.nanoseconds();
  }
  return begin;
}

/// Books nanosecond by nanosecond: each idle one looks for the first span that begins after it.
IdleTime slow_idle(const run::Timeline& timeline, int32_t rank, const std::vector<Moment>& moments,
                   const RankBreakdown& reach, const IdleRules& rules) {
  IdleTime idle;
  bool any_launch = false;
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    any_launch |= timeline.spans[i].type <= memcpy_ && launched_at(timeline, i).has_value();
  for (int64_t t = reach.begin.nanoseconds(); t < reach.end.nanoseconds(); ++t) {
    if (moments[as_size(t - earliest)].any()) continue;
    int64_t gap_begin = t;
    while (!moments[as_size(gap_begin - 1 - earliest)].any() &&
           gap_begin > reach.begin.nanoseconds())
      --gap_begin;
    // Spans without length cut a gap in two.
    size_t next = timeline.spans.size();
    for (size_t i = timeline.spans.size(); i-- > 0;) {
      const run::Span& span = timeline.spans[i];
      if (span.rank != rank || span.type > memcpy_) continue;
      if (span.begin.nanoseconds() > t) next = i;
      if (span.begin.nanoseconds() <= t)
        gap_begin = std::max(gap_begin, std::min(t, span.end.nanoseconds()));
    }
    REQUIRE(next < timeline.spans.size());
    const int64_t gap = timeline.spans[next].begin.nanoseconds() - gap_begin;
    const std::optional<int64_t> launched = launched_at(timeline, next);
    if (!any_launch || !launched)
      ++idle.unknown;
    else if (*launched > gap_begin)
      ++idle.host_wait;
    else
      ++(gap <= rules.kernel_gap ? idle.kernel_wait : idle.other);
  }
  return idle;
}

RankBreakdown slow_breakdown(const run::Timeline& timeline, int32_t rank, const IdleRules& rules) {
  const std::vector<Moment> moments = moments_of(timeline, rank);
  RankBreakdown result{.rank = rank, .begin = Instant(latest), .end = Instant(earliest)};
  for (const run::Span& span : timeline.spans) {
    if (span.rank != rank || span.type > memcpy_) continue;
    result.begin = std::min(result.begin, span.begin);
    result.end = std::max(result.end, span.end);
  }
  for (const Moment& m : moments) {
    result.busy += m.any();
    result.compute += m.compute;
    result.communication += m.communication;
    result.copy += m.copy;
    result.overlapped += m.communication && m.compute;
    result.exposed_communication += m.communication && !m.compute;
    result.exposed_copy += m.copy && !m.compute && !m.communication;
  }
  result.idle_time = slow_idle(timeline, rank, moments, result, rules);
  return result;
}

TEST_CASE("interval arithmetic equals looking at every nanosecond, on 10000 random timelines") {
  const IdleRules rules{.kernel_gap = 5};
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    const run::Timeline timeline = random_trace(seed);
    for (const RankBreakdown& fast : breakdown_of_ranks(timeline, rules)) {
      CAPTURE(seed);
      CAPTURE(fast.rank);
      REQUIRE(fast == slow_breakdown(timeline, fast.rank, rules));
    }
  }
}

TEST_CASE("the parts of a rank's time make up the whole") {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const RankBreakdown& rank : breakdown_of_ranks(random_trace(seed))) {
      CHECK(rank.busy == rank.compute + rank.exposed_communication + rank.exposed_copy);
      CHECK(rank.communication == rank.exposed_communication + rank.overlapped);
      CHECK(rank.idle() == rank.idle_time.total());
      CHECK(rank.span() == rank.busy + rank.idle());
    }
  }
}

TEST_CASE("a launch after the gap began is the host's fault, a launch before it is not") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  const auto add = [&](int64_t begin, int64_t end, int32_t type, int64_t correlation) {
    timeline.spans.push_back({Instant(begin), Instant(end), type});
    timeline.details.push_back({.correlation = correlation});
  };
  add(0, 10, launch, 1), add(20, 1000, gemm, 1);
  add(30, 40, launch, 2), add(1400, 2000, gemm, 2);      // gap 400: the device's own
  add(2500, 2600, launch, 3), add(3000, 4000, gemm, 3);  // gap 1000: launched 500 after it began
  add(50, 60, launch, 4), add(140'000, 150'000, gemm, 4);
  run::sort(timeline);
  const IdleTime idle = breakdown_of_ranks(timeline).at(0).idle_time;
  CHECK(idle == IdleTime{.host_wait = 1000, .kernel_wait = 400, .other = 136'000});
}

TEST_CASE("a pattern's rank breaks down as its spans written out do") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 2;
  run::PatternPiece piece{.repeat = 3, .length = 100 * unit::ns};
  piece.spans = {{Instant(5), Instant(40), gemm}, {Instant(30), Instant(80), all_reduce}};
  timeline.patterns = {{.name = "forward", .pieces = {piece}}};
  timeline.instances = {{.begin = Instant(7), .rank = 1}, {.begin = Instant(500), .rank = 1}};
  const auto folded = breakdown_of_ranks(timeline),
             expanded = breakdown_of_ranks(run::expand(timeline));
  CHECK(folded == expanded);
  CHECK(folded.at(0).rank == 1);
  CHECK(folded.at(0).overlapped == 60);
}

TEST_CASE("the extremes of a quantity name their ranks, in numeric order") {
  CHECK(!spread_of({}));
  const RankSpread spread = spread_of({{10, 3.0}, {2, 1.0}, {9, 3.0}, {4, 2.0}}).value();
  CHECK(spread.minimum_rank == 2);
  CHECK(spread.median == 2.0);
  CHECK(spread.maximum == 3.0);
  CHECK(spread.maximum_rank == 9);
}

}  // namespace
}  // namespace triplepoint::metrics
