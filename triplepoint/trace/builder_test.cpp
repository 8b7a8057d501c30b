// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/builder.h"

#include <doctest/doctest.h>

#include "triplepoint/trace/bulk.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::trace {
namespace {

NamedTrace one_rank(std::string name, std::optional<int32_t> rank, int64_t epoch) {
  NamedTrace named{.name = std::move(name)};
  named.trace.timeline = sample_timeline(7, 1, 5);
  named.trace.rank = rank;
  named.trace.epoch_unix_ns = epoch;
  named.trace.facts = {{"device", "H100"}, {"traceName", named.name}};
  return named;
}

TEST_CASE("ranks stand in names in the ways people write them") {
  CHECK(rank_in_name("trace/rank-3.json") == 3);
  CHECK(rank_in_name("rank_12_trace.json.gz") == 12);
  CHECK(rank_in_name("a.tar.gz: dlrm/worker7_step_12.169.pt.trace.json") == 7);
  CHECK(rank_in_name("ranks-0/trace.json") == std::nullopt);  // of a folder
  CHECK(rank_in_name("frank.rank5") == 5);
  CHECK(rank_in_name("trace_3.json") == std::nullopt);
  CHECK(rank_in_name("rank99999999999999999999") == std::nullopt);
  CHECK(rank_in_name("1782763266.41-TP-10.trace.json") == 10);
  CHECK(rank_in_name("http-2.json") == std::nullopt);
  // PyTorch's own names tell host and process.
  CHECK(rank_in_name("pytorch-worker-0_1201.1700000000000.pt.trace.json") == std::nullopt);
  CHECK(rank_by_pattern("node*_{rank}.json", "traces/node7_40.json") == 40);
  CHECK(rank_by_pattern("*/r{rank}/t.json", "traces/r12/t.json") == 12);
  CHECK(rank_by_pattern("{rank}", "12.json") == std::nullopt);
}

TEST_CASE("where names are doubtful, their order tells the ranks, and that is noted") {
  std::vector<NamedTrace> all;
  for (const char* name : {"worker-0_1", "worker-0_2", "worker-1_1"})
    all.push_back(one_rank(name, {}, 0));
  const Trace merged = merge(std::move(all)).value();
  CHECK(merged.timeline.num_ranks == 3);
  REQUIRE(merged.skipped.notes.size() == 1);
  CHECK(merged.skipped.notes[0].find("--ranks") != std::string::npos);
  CHECK_FALSE(merge({one_rank("a/rank0.json", {}, 0), one_rank("b/rank0.json", {}, 0)}));
}

TEST_CASE("a rank without spans is there, and moves nothing") {
  NamedTrace empty{.name = "rank1.json"};
  settle(empty.trace, 0);
  CHECK_FALSE(empty.trace.epoch_unix_ns);
  const Trace merged = merge({one_rank("rank0.json", {}, 5000), empty}).value();
  CHECK(merged.epoch_unix_ns == 5000);
  CHECK(merged.timeline.num_ranks == 2);
  CHECK(merged.timeline.lanes.back().rank == 1);
  CHECK(merged.timeline.spans.front().begin == Instant());
}

/// A call a microsecond before each of `count` kernels, 100 us apart.
Trace launched_kernels(int count) {
  TraceBuilder builder("test");
  const int32_t kernel = builder.type({.name = "gemm", .kind = run::SpanKind::compute});
  const int32_t call =
      builder.type({.name = "launch", .kind = run::SpanKind::host, .stream = run::Stream::host});
  const int32_t lane = builder.lane({0, run::Stream::compute, 7, "stream 7"});
  const int32_t thread = builder.lane({0, run::Stream::host, 1, "thread 1"});
  for (int i = 0; i < count; ++i) {
    const int64_t at = 5'000'000'000 + i * int64_t{100'000};
    builder.add({Instant(at - 1000), Instant(at - 500), call}, {.lane = thread, .correlation = i});
    builder.add({Instant(at), Instant(at + 90'000), kernel}, {.lane = lane, .correlation = i});
  }
  Trace trace = std::move(builder).finish(std::nullopt);
  return trace;
}

TEST_CASE("a stamp that cannot be right is left out and counted, and nothing else changes") {
  const Trace sound = launched_kernels(20);
  CHECK(sound.skipped == Skipped{});
  for (const int64_t wrong : {int64_t{-100'000'000'000'000}, int64_t{-3'600'000'000'000},
                              int64_t{-20'000'000}, int64_t{100'000'000'000'000}, INT64_MAX / 2}) {
    for (const size_t which : {size_t{1}, size_t{21}, size_t{39}}) {  // kernels
      Trace broken = sound;
      run::Span& span = broken.timeline.spans[which];
      span.begin = Instant(span.begin.nanoseconds() + wrong);
      span.end = Instant(span.end.nanoseconds() + wrong);
      settle(broken, std::nullopt);
      CAPTURE(wrong);
      CAPTURE(which);
      CHECK(broken.skipped.events == 1);
      CHECK(broken.skipped.reasons.size() == 1);
      CHECK(broken.epoch_in_file_ns == 0);
      Trace expected = sound;
      expected.timeline.spans.erase(expected.timeline.spans.begin() +
                                    static_cast<std::ptrdiff_t>(which));
      CHECK(timed_spans(broken.timeline) == expected.timeline.spans);
    }
  }
}

TEST_CASE("where host and device clocks differ, nothing is left out, and that is noted") {
  Trace trace = launched_kernels(20);
  for (run::Span& span : trace.timeline.spans)
    if (span.type == 0) {
      span.begin = Instant(span.begin.nanoseconds() - 7'000'000);
      span.end = Instant(span.end.nanoseconds() - 7'000'000);
    }
  settle(trace, std::nullopt);
  CHECK(trace.skipped.events == 0);
  CHECK(trace.skipped.notes.size() == 1);
  CHECK(trace.timeline.spans.size() == 40);
}

TEST_CASE(
    "a length that overflowed ends where the next begins, and the last of a stream has none") {
  for (const size_t which : {size_t{1}, size_t{39}}) {
    Trace trace = launched_kernels(20);
    run::Span& span = trace.timeline.spans[which];
    span.end = Instant(span.begin.nanoseconds() + 3'400'000'000'000);
    settle(trace, std::nullopt);
    CHECK(trace.skipped.events == (which == 39 ? 1 : 0));
    CHECK(trace.skipped.notes.size() == (which == 39 ? 0 : 1));
    CHECK(run::extent(trace.timeline)->end.nanoseconds() < 2'000'000'000);
  }
}

TEST_CASE("ranks come in numeric order on the earliest epoch") {
  const Trace merged =
      merge({one_rank("rank10.json", {}, 5000), one_rank("rank2.json", {}, 4000)}).value();
  CHECK(merged.timeline.num_ranks == 11);
  CHECK(merged.epoch_unix_ns == 4000);
  CHECK(merged.facts == std::map<std::string, std::string>{{"device", "H100"}});
  CHECK(!run::find_fault(merged.timeline));
  const auto& spans = merged.timeline.spans;
  CHECK(spans.front().rank == 2);
  CHECK(spans.front().begin == Instant(0));
  const auto of_ten = std::ranges::find(spans, 10, &run::Span::rank);
  CHECK(of_ten->begin == Instant(1000));
  // The same groups and types on both.
  CHECK(merged.timeline.types.size() == sample_timeline(7, 1, 5).types.size());
  CHECK(merged.timeline.communicators.size() == 2);
}

TEST_CASE("traces that do not know their rank take the places that are left") {
  const Trace merged =
      merge({one_rank("b.json", {}, 0), one_rank("a.json", 0, 0), one_rank("c.json", {}, 0)})
          .value();
  CHECK(merged.timeline.num_ranks == 3);
}

TEST_CASE("two traces of one rank are named") {
  const auto merged = merge({one_rank("a.json", 3, 0), one_rank("b.json", 3, 0)});
  REQUIRE(!merged);
  CHECK(merged.error().what.find("a.json and b.json are both of rank 3") != std::string::npos);
}

TEST_CASE("sorting by keys is sorting") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    run::Timeline a = sample_timeline(seed, 3, 100);
    for (size_t i = a.spans.size(); i > 1; --i) {
      const auto other = as_size(random_bits({seed, 9}, i) % i);
      std::swap(a.spans[i - 1], a.spans[other]);
      std::swap(a.details[i - 1], a.details[other]);
    }
    run::Timeline b = a;
    sort_spans(a);
    run::sort(b);
    CHECK(a == b);
  }
}

}  // namespace
}  // namespace triplepoint::trace
