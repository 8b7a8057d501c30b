// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/occupancy.h"

#include <doctest/doctest.h>

#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using run::Span;
using run::SpanKind;
using run::Timeline;

void add_types(Timeline& timeline) {
  timeline.intern({.name = "gemm", .kind = SpanKind::compute});
  timeline.intern({.name = "norm", .kind = SpanKind::memory});
  timeline.intern({.name = "tp_all_reduce",
                   .kind = SpanKind::communication,
                   .collective = spec::Collective::all_reduce,
                   .group = spec::GroupKind::tensor});
  timeline.intern({.name = "send_recv",
                   .kind = SpanKind::communication,
                   .collective = spec::Collective::send_recv,
                   .group = spec::GroupKind::pipeline});
  timeline.intern({.name = "forward", .kind = SpanKind::pass});
  timeline.intern({.name = "launch", .kind = SpanKind::host});
  timeline.intern({.name = "memcpy", .kind = SpanKind::copy});
}

/// Times are multiples of it, so that nothing looks like rounding to nanoseconds.
constexpr int64_t tick = 5;

Span random_span(testing::Rng& rng, int64_t latest) {
  Span span;
  const int64_t begin = rng.upto(latest), length = rng.upto(12);
  span.begin = Instant(tick * begin);
  span.end = Instant(tick * (begin + length));
  span.type = static_cast<int32_t>(rng.upto(6));
  span.wait = as_real(tick * rng.upto(length)) * unit::ns;
  return span;
}

/// Two ranks with single spans and instances. `untidy`: spans reach over the borders of their
/// pieces, and instances over each other.
Timeline random_timeline(uint64_t seed, bool untidy) {
  testing::Rng rng(seed);
  Timeline timeline;
  timeline.num_ranks = 2;
  add_types(timeline);
  for (int p = 0; p < 2; ++p) {
    run::Pattern pattern;
    for (int64_t pieces = 1 + rng.upto(2); pieces > 0; --pieces) {
      run::PatternPiece piece;
      piece.repeat = static_cast<int32_t>(1 + rng.upto(3));
      for (int64_t spans = rng.upto(4); spans > 0; --spans)
        piece.spans.push_back(random_span(rng, 15));
      piece.length = as_real(tick * ((untidy ? 20 : 27) + rng.upto(5))) * unit::ns;
      pattern.pieces.push_back(piece);
    }
    timeline.patterns.push_back(pattern);
  }
  for (int32_t rank : {0, 1}) {
    int64_t begin = tick * rng.upto(30);
    for (int i = 0; i < 4; ++i) {
      const auto pattern = static_cast<int32_t>(rng.upto(1));
      timeline.instances.push_back({.begin = Instant(begin), .pattern = pattern, .rank = rank});
      const Seconds length = timeline.patterns[as_size(pattern)].length();
      begin += run::whole_nanoseconds(length) + tick * (rng.upto(20) - (untidy ? 15 : 0));
    }
    for (int i = 0; i < 25; ++i) {
      Span span = random_span(rng, 600);
      span.rank = rank;
      timeline.spans.push_back(span);
    }
  }
  run::sort(timeline);
  return timeline;
}

/// Nanosecond by nanosecond, as the words say.
Occupancy slow_occupancy(const Timeline& timeline, int32_t rank) {
  std::vector<unsigned> doing(20000, 0);  // from -5000 on
  const auto mark = [&](unsigned bit, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      doing[as_size(t + 5000)] |= bit;
  };
  const auto mark_span = [&](const Span& s) {
    const int64_t begin = s.begin.nanoseconds(), end = s.end.nanoseconds();
    if (s.type <= 1) mark(DeviceActivity::computing, begin, end);
    if (s.type == 2 || s.type == 3) mark(DeviceActivity::communicating, begin, end);
    if (s.type == 2) mark(DeviceActivity::exchanging, begin, end);
    if (s.type == 2)
      mark(DeviceActivity::awaiting, begin, std::min(begin + run::whole_nanoseconds(s.wait), end));
    if (s.type == 3) mark(DeviceActivity::exchanging, begin + run::whole_nanoseconds(s.wait), end);
    if (s.type == 4) mark(DeviceActivity::in_pass, begin, end);
    if (s.type == 6) mark(DeviceActivity::copying, begin, end);
  };
  run::for_each_span(timeline, rank, mark_span);
  for (const run::PatternInstance& instance : timeline.instances) {
    if (instance.rank != rank) continue;
    Timeline one = timeline;
    one.spans.clear();
    one.instances = {instance};
    const run::Extent extent = run::extent(one).value();
    mark(DeviceActivity::in_pass, extent.begin.nanoseconds(), extent.end.nanoseconds());
  }
  Occupancy occupancy;
  for (unsigned d : doing)
    if (d != 0) ++occupancy.nanoseconds[d];
  return occupancy;
}

TEST_CASE("looking at each pattern once equals looking at every nanosecond") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Timeline timeline = random_timeline(seed, seed % 2 == 0);
    REQUIRE(!run::find_fault(timeline));
    const std::vector<Occupancy> fast = occupancy_of_ranks(timeline);
    const std::vector<Occupancy> expanded = occupancy_of_ranks(run::expand(timeline));
    for (int32_t rank : {0, 1}) {
      CAPTURE(seed);
      const auto r = as_size(rank);
      CHECK(fast[r].nanoseconds == slow_occupancy(timeline, rank).nanoseconds);
      const auto kernels = DeviceActivity::computing | DeviceActivity::communicating;
      CHECK(fast[r].time_with_any(kernels) == expanded[r].time_with_any(kernels));
    }
  }
}

TEST_CASE("every nanosecond of a rank is exposed, overlapped or computing, or no kernel runs") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Occupancy doing = occupancy_of_ranks(random_timeline(seed, true))[0];
    const Seconds exposed = doing.time(DeviceActivity::communicating, DeviceActivity::computing);
    const Seconds overlapped =
        doing.time(DeviceActivity::communicating | DeviceActivity::computing);
    const Seconds alone = doing.time(DeviceActivity::computing, DeviceActivity::communicating);
    const Seconds any =
        doing.time_with_any(DeviceActivity::computing | DeviceActivity::communicating);
    CHECK((exposed + overlapped + alone) / unit::ns == doctest::Approx(any / unit::ns));
  }
}

TEST_CASE("no communication, no exposed communication") {
  Timeline timeline = random_timeline(7, false);
  for (Span& span : timeline.spans)
    span.type = 0;
  for (run::Pattern& pattern : timeline.patterns)
    for (run::PatternPiece& piece : pattern.pieces)
      for (Span& span : piece.spans)
        span.type = 1;
  CHECK(occupancy_of_ranks(timeline)[0].time(DeviceActivity::communicating) == Seconds());
  CHECK(occupancy_of_ranks(timeline)[0].time(DeviceActivity::computing) > Seconds());
}

}  // namespace
}  // namespace triplepoint::metrics
