// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

/// Two ranks, each with a product (10 blocks of 256 threads, 40 %, 3 us), an activation (100 of
/// 128, 80 %, 1 us) and a copy.
run::Run traced_run() {
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run::Timeline& timeline = run.timeline;
  timeline.num_ranks = 2;
  timeline.names = run::NameKind::kernels;
  const int32_t product = timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
  const int32_t stream = timeline.intern({.name = "gelu", .kind = run::SpanKind::memory});
  const int32_t copy = timeline.intern({.name = "Memcpy", .kind = run::SpanKind::copy});
  const auto add = [&](int32_t rank, int32_t type, int64_t begin, int64_t end, int64_t blocks,
                       int32_t threads, float occupancy) {
    timeline.spans.push_back({Instant(begin), Instant(end), type, rank});
    timeline.details.push_back(
        {.blocks = blocks, .threads_per_block = threads, .occupancy = occupancy});
  };
  for (int32_t rank = 0; rank < 2; ++rank) {
    add(rank, product, 0, 3000, 10, 256, 40);
    add(rank, stream, 3000, 4000, 100, 128, 80);
    add(rank, copy, 4000, 5000, -1, -1, -1);
  }
  return run;
}

TEST_CASE("of a trace, launches are means over the ranks, and copies have none") {
  const Metrics m = measure(traced_run());
  CHECK(m.launches.at("compute").count == 1);
  CHECK(m.launches.at("compute").blocks.value() == 10);
  CHECK(m.launches.at("compute").warps.value() == 10 * 8);
  CHECK(m.launches.at("memory").warps.value() == 100 * 4);
  CHECK(m.launches.at("memory").occupancy.value() == Approx(0.8));
  CHECK(!m.launches.contains("copy"));
  CHECK(m.launches.at("total").count == 2);
  CHECK(m.launches.at("total").blocks.value() == 110);
  CHECK(m.launches.at("total").occupancy.value() == Approx((3 * 0.4 + 0.8) / 4));
}

TEST_CASE("where one kernel has no grid, the blocks of its class and of all are unknown") {
  run::Run run = traced_run();
  run.timeline.details.front().blocks = -1;
  const Metrics m = measure(run);
  CHECK(!m.launches.at("compute").blocks);
  CHECK(!m.launches.at("total").warps);
  CHECK(m.launches.at("memory").blocks.value() == 100);
  for (run::SpanDetail& detail : run.timeline.details)
    detail = {};
  CHECK(measure(run).launches.empty());
}

TEST_CASE("of a simulated run, launches are those that its producer counts") {
  run::Run run;
  run.launches = {{.kind = run::SpanKind::compute,
                   .collective = {},
                   .launches = 4,
                   .blocks = 400,
                   .warps = 3200,
                   .occupancy = 0.2,
                   .time = 3 * unit::s},
                  {.kind = run::SpanKind::communication,
                   .collective = spec::Collective::all_reduce,
                   .launches = 2,
                   .blocks = 48,
                   .warps = 960,
                   .occupancy = 0.1,
                   .time = 1 * unit::s}};
  const Metrics m = measure(run);
  CHECK(m.launches.at("all_reduce").blocks.value() == 48);
  CHECK(m.launches.at("total").warps.value() == 3200 + 960);
  CHECK(m.launches.at("total").occupancy.value() == Approx((3 * 0.2 + 0.1) / 4));
}

}  // namespace
}  // namespace triplepoint::metrics
