// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/timeline.h"

#include <doctest/doctest.h>

#include "triplepoint/run/run.h"

namespace triplepoint::run {
namespace {

Span span(int64_t begin, int64_t end, int32_t type = 0) {
  return {.begin = Instant(begin), .end = Instant(end), .type = type};
}

/// Two ranks; a forward pass of three layers (10 ns each) and a head of 7 ns, twice per rank.
Timeline small_timeline() {
  Timeline t;
  t.num_ranks = 2;
  t.intern({.name = "qkv", .kind = SpanKind::compute});
  t.intern({.name = "send", .kind = SpanKind::communication});
  PatternPiece layer{.spans = {span(1, 4), span(6, 9)}, .repeat = 3, .length = 10 * unit::ns};
  layer.first_layer = 5;
  PatternPiece head{.spans = {span(0, 7)}, .repeat = 1, .length = 7 * unit::ns};
  t.patterns.push_back({.name = "forward", .pieces = {layer, head}});
  for (int32_t rank : {0, 1})
    for (int64_t begin : {100, 200})
      t.instances.push_back(
          {.begin = Instant(begin), .rank = rank, .stage = rank, .microbatch = 3});
  Span send = span(140, 150, 1);
  send.rank = 1;
  t.spans.push_back(send);
  return t;
}

TEST_CASE("the same type is interned once") {
  Timeline t;
  CHECK(t.intern({.name = "a"}) == 0);
  CHECK(t.intern({.name = "b"}) == 1);
  CHECK(t.intern({.name = "a"}) == 0);
  CHECK(t.intern({.name = "a", .kind = SpanKind::compute}) == 2);
}

TEST_CASE("an instance runs its pieces one after the other") {
  const Timeline t = small_timeline();
  std::vector<std::pair<int64_t, int32_t>> seen;  // begin, layer
  for_each_span(t, 0, [&](const Span& s) {
    if (s.begin < Instant(200)) seen.emplace_back(s.begin.nanoseconds(), s.layer);
    CHECK(s.rank == 0);
    CHECK(s.stage == 0);
    CHECK(s.microbatch == 3);
  });
  const std::vector<std::pair<int64_t, int32_t>> expected = {{101, 5}, {106, 5}, {111, 6}, {116, 6},
                                                             {121, 7}, {126, 7}, {130, -1}};
  CHECK(seen == expected);
  CHECK(t.patterns[0].length() == Instant(37) - Instant(0));
}

TEST_CASE("a timeline has the ranks of its spans and instances, each once") {
  Timeline t = small_timeline();
  t.num_ranks = 9;
  t.spans.push_back(t.spans.front());
  t.spans.back().rank = 7;
  CHECK(ranks_of(t) == std::set<int32_t>{0, 1, 7});
}

TEST_CASE("single spans take their turn between the instances") {
  std::vector<int64_t> begins;
  for_each_span(small_timeline(), 1,
                [&](const Span& s) { begins.push_back(s.begin.nanoseconds()); });
  CHECK(begins.size() == 15);
  CHECK(std::ranges::is_sorted(begins));
}

TEST_CASE("all ranks are the ranks one after the other") {
  const Timeline t = small_timeline();
  std::vector<Span> all, one_by_one;
  for_each_span(t, -1, [&](const Span& s) { all.push_back(s); });
  for (int32_t rank : {0, 1})
    for_each_span(t, rank, [&](const Span& s) { one_by_one.push_back(s); });
  CHECK(all == one_by_one);
}

TEST_CASE("an expanded timeline shows the same spans and is sound") {
  const Timeline t = small_timeline(), expanded = expand(t);
  CHECK(expanded.instances.empty());
  CHECK(!find_fault(expanded));
  CHECK(extent(expanded) == Extent{Instant(101), Instant(237)});
  CHECK(extent(t) == Extent{Instant(100), Instant(237)});  // a pass begins before its first kernel
  for (int32_t rank : {0, 1}) {
    std::vector<Span> of_patterns, of_spans;
    for_each_span(t, rank, [&](const Span& s) { of_patterns.push_back(s); });
    for_each_span(expanded, rank, [&](const Span& s) { of_spans.push_back(s); });
    CHECK(of_patterns == of_spans);
  }
}

TEST_CASE("faults are found and named") {
  Timeline t = small_timeline();
  CHECK(!find_fault(t));
  t.spans[0].end = Instant(0);
  CHECK(find_fault(t).value().find("ends before it begins") != std::string::npos);
  t = small_timeline();
  t.instances[0].rank = 1;
  CHECK(find_fault(t).value().find("not sorted") != std::string::npos);
  sort(t);
  CHECK(!find_fault(t));
  t.instances[2].pattern = 1;
  CHECK(find_fault(t).value().find("pattern") != std::string::npos);
  t = small_timeline();
  t.patterns[0].pieces[0].spans[0].type = 2;
  CHECK(find_fault(t).value().find("type") != std::string::npos);
}

TEST_CASE("clipping keeps what begins inside") {
  const Timeline late = clip(small_timeline(), Instant(150), Instant(1000));
  CHECK(late.spans.empty());
  CHECK(late.instances.size() == 2);
  CHECK(!find_fault(late));
}

TEST_CASE("detailed steps are those which the timeline covers") {
  Run run;
  run.steps = {{.begin = Instant(0), .end = Instant(95)},
               {.begin = Instant(95), .end = Instant(240)}};
  CHECK(detailed_steps(run).size() == 2);
  run.timeline = small_timeline();
  REQUIRE(detailed_steps(run).size() == 1);
  CHECK(detailed_steps(run)[0] == run.steps[1]);
}

TEST_CASE("a simulated step is detailed though the host's time after its kernels is most of it") {
  Run run;
  run.timeline = small_timeline();
  const Extent shown = *extent(run.timeline);
  const Seconds length = shown.end - shown.begin;
  run.steps = {{.begin = shown.begin, .end = shown.end + 2 * length}};
  run.manifest.origin = Origin::simulated;
  CHECK(detailed_steps(run).size() == 1);
  run.manifest.origin = Origin::measured;
  CHECK(detailed_steps(run).empty());
}

TEST_CASE("a simulated step is detailed though its last span ends nanoseconds after it") {
  Run run;
  run.timeline = small_timeline();
  run.manifest.origin = Origin::simulated;
  const Extent shown = *extent(run.timeline);
  const Seconds length = shown.end - shown.begin;
  run.steps = {{.begin = shown.begin - 9 * length, .end = shown.end - 6 * unit::ns}};
  REQUIRE(detailed_steps(run).size() == 1);
  // The step after it is not shown.
  run.steps.push_back({.begin = run.steps[0].end, .end = run.steps[0].end + 10 * length});
  CHECK(detailed_steps(run).size() == 1);
}

TEST_CASE("details follow their spans when a timeline is sorted and clipped") {
  Timeline timeline;
  timeline.num_ranks = 1;
  timeline.intern({.name = "gemm"});
  timeline.lanes = {{.number = 7, .name = "stream 7"}};
  for (const int64_t begin : {30, 10, 20}) {
    timeline.spans.push_back({.begin = Instant(begin), .end = Instant(begin + 5)});
    timeline.details.push_back({.lane = 0, .correlation = begin});
  }
  sort(timeline);
  REQUIRE(!find_fault(timeline));
  for (size_t i = 0; i < 3; ++i)
    CHECK(timeline.details[i].correlation == timeline.spans[i].begin.nanoseconds());
  const Timeline tail = clip(timeline, Instant(15), Instant(99));
  REQUIRE(tail.details.size() == 2);
  CHECK(tail.details[0].correlation == 20);
  timeline.details.pop_back();
  CHECK(find_fault(timeline).has_value());
}

}  // namespace
}  // namespace triplepoint::run
