// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/trace_diff.h"

#include <doctest/doctest.h>

#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

/// Steps of two kernels on each rank; the gemm takes `length`.
run::Timeline steps(int32_t ranks, int64_t count, int64_t length) {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = ranks;
  for (int32_t rank = 0; rank < ranks; ++rank)
    for (int64_t i = 0; i < count; ++i) {
      const int32_t mark = timeline.intern({.name = "ProfilerStep#" + std::to_string(i),
                                            .kind = run::SpanKind::step,
                                            .stream = run::Stream::host});
      const int64_t begin = 1000 * i;
      timeline.spans.push_back({Instant(begin), Instant(begin + 1000), mark, rank});
      timeline.spans.push_back({Instant(begin + 10), Instant(begin + 10 + length), gemm, rank});
      timeline.spans.push_back({Instant(begin + 500), Instant(begin + 600), norm, rank});
    }
  run::sort(timeline);
  return timeline;
}

TEST_CASE("a trace does not differ from itself") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const run::Timeline timeline = random_trace(seed);
    for (const DiffRow& row : diff_traces(timeline, timeline).by_name)
      CHECK(row.difference() == 0);
  }
}

TEST_CASE("numbers of ranks and steps do not look like a difference, a longer kernel does") {
  const TraceDiff diff = diff_traces(steps(2, 3, 100), steps(4, 5, 150));
  CHECK(diff.per_step);
  CHECK(diff.ranks_before == 2);
  CHECK(diff.ranks_after == 4);
  REQUIRE(diff.by_label.size() == 2);
  CHECK(diff.by_label[0].label == "compute");
  CHECK(diff.by_label[0].difference() == doctest::Approx(50));
  CHECK(*diff.by_label[0].count_after == doctest::Approx(1));
  CHECK(diff.by_label[1].difference() == 0);
  REQUIRE(diff.steps.size() == 5);
  CHECK(*diff.steps[0].ns_before == doctest::Approx(590));
  CHECK(!diff.steps[4].ns_before);
}

TEST_CASE("a kernel that only one trace has is absent in the other, not zero") {
  run::Timeline after = steps(1, 2, 100);
  for (run::Span& span : after.spans)
    if (span.type == norm) span.type = memcpy_;
  const TraceDiff diff = diff_traces(steps(1, 2, 100), after);
  for (const DiffRow& row : diff.by_name) {
    if (row.name == "Memcpy HtoD") CHECK(!row.ns_before);
    if (row.name == "layer_norm_kernel") CHECK(!row.ns_after);
  }
}

}  // namespace
}  // namespace triplepoint::metrics
