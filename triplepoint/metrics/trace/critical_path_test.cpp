// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/critical_path.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

/// A timeline by hand: one compute stream, one communication stream and one thread per rank.
class Script {
 public:
  explicit Script(int32_t ranks) {
    add_types(timeline_);
    timeline_.intern({.name = "cudaDeviceSynchronize",
                      .kind = run::SpanKind::host,
                      .stream = run::Stream::host});
    timeline_.num_ranks = ranks;
    for (int32_t rank = 0; rank < ranks; ++rank)
      for (auto stream : {run::Stream::compute, run::Stream::communication, run::Stream::host})
        timeline_.lanes.push_back({.rank = rank, .stream = stream});
  }
  static constexpr int32_t synchronize = type_count;

  /// A host call; `launches` a span of that type in [from, until).
  void call(int32_t rank, int64_t begin, int64_t end, int32_t launches = -1, int64_t from = 0,
            int64_t until = 0) {
    add(rank, 2, begin, end, launches < 0 ? synchronize : launch, ++correlation_);
    if (launches >= 0)
      add(rank, launches == all_reduce ? 1 : 0, from, until, launches, correlation_);
  }
  int32_t host_name(const char* name) {
    return timeline_.intern(
        {.name = name, .kind = run::SpanKind::host, .stream = run::Stream::host});
  }
  void host(int32_t rank, int64_t begin, int64_t end, int32_t type) {
    add(rank, 2, begin, end, type, -1);
  }
  void other_thread(int32_t rank, int64_t begin, int64_t end, int32_t type) {
    if (timeline_.lanes.size() == 3 * as_size(timeline_.num_ranks))
      timeline_.lanes.push_back({.rank = rank, .stream = run::Stream::host, .number = 99});
    timeline_.spans.push_back({Instant(begin), Instant(end), type, rank});
    timeline_.details.push_back({.lane = 3 * timeline_.num_ranks});
  }
  run::Timeline finish() {
    run::sort(timeline_);
    return timeline_;
  }

 private:
  void add(int32_t rank, int32_t lane, int64_t begin, int64_t end, int32_t type,
           int64_t correlation) {
    timeline_.spans.push_back({Instant(begin), Instant(end), type, rank});
    timeline_.details.push_back({.lane = 3 * rank + lane, .correlation = correlation});
  }
  run::Timeline timeline_;
  int64_t correlation_ = 0;
};

int64_t share_of(const CriticalPath& path, std::string_view label) {
  const auto found = std::ranges::find(path.shares, label, &PathShare::label);
  return found == path.shares.end() ? 0 : found->on_path;
}

TEST_CASE("the path has no holes, and its pieces add up to its length") {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const run::Timeline timeline = random_trace(seed);
    const CriticalPath path = critical_path(timeline);
    CAPTURE(seed);
    int64_t sum = 0;
    for (size_t i = 0; i < path.pieces.size(); ++i) {
      sum += path.pieces[i].end - path.pieces[i].begin;
      if (i > 0) REQUIRE(path.pieces[i].begin == path.pieces[i - 1].end);
    }
    CHECK(sum == path.length());
    int64_t shares = 0, ranks = 0;
    for (const PathShare& share : path.shares)
      shares += share.on_path;
    for (const PathRankShare& rank : path.ranks)
      ranks += rank.on_path;
    CHECK(shares == path.length());
    CHECK(ranks == path.length());
  }
}

TEST_CASE("simulated again with nothing made free, everything ends when it did") {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const run::Timeline timeline = random_trace(seed);
    const CriticalPath path = critical_path(timeline);
    if (path.pieces.empty()) continue;
    CAPTURE(seed);
    CHECK(critical_path_without(timeline, build_dependency_graph(timeline),
                                "nothing has this label") == path.end);
  }
}

TEST_CASE("making a class free saves at most what the path spends on it, and never costs time") {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    for (const PathShare& share : critical_path(random_trace(seed)).shares) {
      CAPTURE(seed);
      CHECK(share.saved_if_free >= 0);
      CHECK(share.saved_if_free <= share.on_path);
    }
  }
}

TEST_CASE("a device that always has work is on the path alone") {
  Script script(1);
  for (int64_t i = 0; i < 5; ++i)
    script.call(0, 2 * i, 2 * i + 1, gemm, 100 + 50 * i, 150 + 50 * i);
  const CriticalPath path = critical_path(script.finish());
  CHECK(share_of(path, "compute") == 250);
  CHECK(share_of(path, launch_delay) == 99);
  CHECK(path.length() == 350);
}

TEST_CASE("a slow host is on the path, and its kernels are not") {
  Script script(1);
  for (int64_t i = 0; i < 5; ++i)
    script.call(0, 100 * i, 100 * i + 100, gemm, 100 * i + 100, 100 * i + 101);
  const CriticalPath path = critical_path(script.finish());
  CHECK(share_of(path, "compute") == 1);
  CHECK(share_of(path, "host") == 500);
  CHECK(path.length() == 501);
}

TEST_CASE("across ranks the path follows the rank that came last, and contains no waiting") {
  Script script(2);
  for (int32_t rank : {0, 1}) {
    const int64_t work = rank == 1 ? 900 : 300;
    script.call(rank, 0, 2, gemm, 10, 10 + work);
    script.call(rank, 3, 5, all_reduce, 10 + work, 930);
    script.call(rank, 6, 8, gemm, 930, 1000);
  }
  const CriticalPath path = critical_path(script.finish());
  CHECK(share_of(path, "compute") == 900 + 70);
  CHECK(share_of(path, "all_reduce") == 20);
  CHECK(path.length() == 1000);
  for (const PathPiece& piece : path.pieces)
    if (piece.begin < 930 && piece.label == "compute") CHECK(piece.rank == 1);
}

TEST_CASE("a call that synchronizes waits for the device, and what follows it waits, too") {
  Script script(1);
  script.call(0, 0, 2, gemm, 10, 500);
  script.call(0, 3, 505);
  script.call(0, 505, 507, gemm, 510, 600);
  const CriticalPath path = critical_path(script.finish());
  CHECK(path.length() == 600);
  CHECK(share_of(path, "compute") == 490 + 90);
  CHECK(share_of(path, "host") == 2 + 5 + 2);
}

TEST_CASE("a thread that waits for another one's calls is not on the path, the other is") {
  Script script(1);
  const int32_t backward = script.host_name("backward");
  const int64_t us = 1000;
  script.host(0, 0, 10 * us, script.host_name("forward"));
  script.host(0, 10 * us, 500 * us, backward);
  for (int64_t i = 0; i < 9; ++i)
    script.other_thread(0, (20 + 50 * i) * us, (69 + 50 * i) * us, script.host_name("autograd op"));
  script.call(0, 500 * us, 501 * us, gemm, 502 * us, 503 * us);
  const CriticalPath path = critical_path(script.finish());
  int64_t in_autograd = 0;
  for (const PathPiece& piece : path.pieces)
    if (piece.begin >= 20 * us && piece.end <= 469 * us) in_autograd += piece.end - piece.begin;
  CHECK(in_autograd == 449 * us);
  CHECK(share_of(path, wake_up) == 10 * us);
}

TEST_CASE("what runs in the shadow of something as long saves nothing") {
  Script script(1);
  script.call(0, 0, 1, gemm, 10, 110);
  script.call(0, 1, 2, all_reduce, 10, 105);
  const CriticalPath path = critical_path(script.finish());
  REQUIRE(path.shares.front().label == "compute");
  CHECK(path.shares.front().on_path == 100);
  CHECK(path.shares.front().saved_if_free == 5);
}

TEST_CASE("a path that loses itself says how much it does not follow") {
  run::Timeline timeline{.num_ranks = 1};
  timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
  timeline.intern(
      {.name = "send", .kind = run::SpanKind::communication, .stream = run::Stream::communication});
  const auto span = [](int64_t begin, int64_t end, int32_t type) {
    return run::Span{.begin = Instant(begin), .end = Instant(end), .type = type};
  };
  timeline.spans = {span(0, 1000, 0), span(1500, 2500, 1)};
  timeline.details.resize(2);  // of a profiler
  const CriticalPath joined = critical_path(timeline);
  CHECK(joined.not_followed == 0);
  CHECK(joined.is_whole());

  timeline.spans[1] = span(50'000'000, 50'001'000, 1);  // nothing says what it waited for
  const CriticalPath lost = critical_path(timeline);
  CHECK(lost.not_followed == lost.begin);
  CHECK_FALSE(lost.is_whole());
}

}  // namespace
}  // namespace triplepoint::metrics
