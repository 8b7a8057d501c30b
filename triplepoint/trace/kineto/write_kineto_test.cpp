// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/write_kineto.h"

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/testing.h"

namespace triplepoint::trace {

namespace {

Trace reread(const std::string& text) {
  Input input = Input::of_text(text, "rank0.json");
  auto trace = read_kineto(input, {});
  REQUIRE_MESSAGE(trace, trace.error().what);
  return *trace;
}

/// What the profiler's files cannot say.
run::Timeline without_groups(run::Timeline timeline) {
  for (run::SpanType& type : timeline.types)
    type.group.reset();
  return timeline;
}

}  // namespace

TEST_CASE("a timeline written as Kineto JSON is read back the same") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const run::Timeline timeline = sample_timeline(seed, 1);
    const std::string text = write_kineto(timeline, 0, 1'700'000'000'000'000'000);
    CHECK(parse_json(text, "trace"));
    const Trace trace = reread(text);
    CHECK(trace.skipped == Skipped{});
    CHECK(trace.epoch_unix_ns == 1'700'000'000'000'000'000);
    CHECK(described(trace.timeline) == described(without_groups(timeline)));
  }
}

TEST_CASE("a written rank says which one it is, and of how many") {
  const run::Timeline timeline = sample_timeline(3, 4);
  for (int32_t rank = 0; rank < 4; ++rank) {
    const Trace trace = reread(write_kineto(timeline, rank));
    CHECK(trace.rank == rank);
    CHECK(trace.facts.at("world_size") == "4");
    CHECK(trace.timeline.spans.size() == timeline.spans.size() / 4);
  }
}

TEST_CASE("a simulated timeline without lanes is written on the usual streams") {
  run::Timeline timeline;
  timeline.num_ranks = 1;
  timeline.types = {{.name = "qkv", .kind = run::SpanKind::compute}};
  timeline.spans = {{Instant(0), Instant(1500), 0, 0, 2, 3, 4}};
  timeline.spans[0].flops = 5e9 * unit::FLOP;
  const std::string text = write_kineto(timeline, 0);
  CHECK(text.find(R"("tid":7,"ts":0.000,"dur":1.500)") != std::string::npos);
  CHECK(text.find(R"("stage":2,"microbatch":3,"layer":4,"flops":5000000000)") != std::string::npos);
  CHECK(reread(text).timeline.spans.size() == 1);
}

}  // namespace triplepoint::trace
