// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/own_time.h"

#include <doctest/doctest.h>

namespace triplepoint::metrics {
namespace {

/// Kernels of 1 ms with gaps of 1 ms, and what the host does in between.
run::Timeline gaps_with(const char* call, const char* around) {
  run::Timeline timeline;
  timeline.num_ranks = 1;
  const int32_t kernel = timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
  const auto host = [&](const char* name) {
    return timeline.intern(
        {.name = name, .kind = run::SpanKind::host, .stream = run::Stream::host});
  };
  const int32_t inner = host(call), outer = host(around);
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t begin = i * 2'000'000;
    timeline.spans.push_back({Instant(begin), Instant(begin + 1'000'000), kernel, 0});
    timeline.spans.push_back({Instant(begin + 900'000), Instant(begin + 1'990'000), outer, 0});
    timeline.spans.push_back({Instant(begin + 1'100'000), Instant(begin + 1'900'000), inner, 0});
  }
  run::sort(timeline);
  return timeline;
}

TEST_CASE("the innermost call fills the gaps of a device") {
  const auto loader = calls_in_gaps(gaps_with("enumerate(DataLoader)", "training step"));
  REQUIRE(loader.has_value());
  CHECK(loader->kind == HostCallKind::data_loader);
  CHECK(loader->name == "enumerate(DataLoader)");
  CHECK(loader->share == doctest::Approx(0.8).epsilon(0.001));
  CHECK(loader->time / unit::ms == doctest::Approx(0.8 * 9).epsilon(0.001));
  CHECK(calls_in_gaps(gaps_with("cudaFree", "aten::empty"))->kind == HostCallKind::allocator);
}

TEST_CASE("without host calls nothing is known of gaps") {
  run::Timeline timeline = gaps_with("a", "b");
  std::erase_if(timeline.spans, [](const run::Span& span) { return span.type != 0; });
  CHECK(!calls_in_gaps(timeline));
  CHECK(!calls_in_gaps({}));
}

}  // namespace
}  // namespace triplepoint::metrics
