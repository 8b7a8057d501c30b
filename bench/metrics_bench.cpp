// SPDX-License-Identifier: Apache-2.0
// What measuring a simulated step costs: 128 microbatches, 24 layers a stage, every rank with its
// own patterns.
#include <benchmark/benchmark.h>

#include "triplepoint/metrics/metrics.h"

namespace triplepoint {
namespace {

run::PatternPiece layers(int64_t scale) {
  run::PatternPiece layer{.repeat = 24, .length = static_cast<double>(40 * scale) * unit::us};
  for (int32_t i = 0; i < 30; ++i)
    layer.spans.push_back({.begin = Instant(i * scale * 1000),
                           .end = Instant((i + 1) * scale * 1000),
                           .type = i % 10 == 9 ? 1 : 0,
                           .bytes = 1 * unit::MB});
  return layer;
}

/// `overlapped`: every pass has a send/recv beside it on another stream.
run::Run step(int32_t ranks, bool overlapped) {
  run::Run run;
  run.timeline.num_ranks = ranks;
  run.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute},
                        {.name = "all_reduce",
                         .kind = run::SpanKind::communication,
                         .collective = spec::Collective::all_reduce,
                         .group = spec::GroupKind::tensor},
                        {.name = "send_recv",
                         .kind = run::SpanKind::communication,
                         .collective = spec::Collective::send_recv,
                         .group = spec::GroupKind::pipeline}};
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto first = static_cast<int32_t>(run.timeline.patterns.size());
    run.timeline.patterns.push_back({.name = "forward", .pieces = {layers(1)}});
    run.timeline.patterns.push_back({.name = "backward", .pieces = {layers(2)}});
    int64_t now = rank * 100;
    for (int32_t pass = 0; pass < 256; ++pass) {
      const int64_t length = (pass % 2 + 1) * 960'000;
      run.timeline.instances.push_back({.begin = Instant(now),
                                        .pattern = first + pass % 2,
                                        .rank = rank,
                                        .stage = rank % 8,
                                        .microbatch = pass / 2});
      const int64_t begin = overlapped ? now + length / 3 : now + length;
      run.timeline.spans.push_back({.begin = Instant(begin),
                                    .end = Instant(begin + 50'000),
                                    .type = 2,
                                    .rank = rank,
                                    .stage = rank % 8,
                                    .wait = 10 * unit::us,
                                    .bytes = 50 * unit::MB});
      now += length + 60'000;
    }
    run.devices.push_back({.index = rank, .slot = rank % 8, .rank = rank});
    run.summaries.push_back({.power_mean_w = 600.0, .energy_j = 1e4, .die_mean_c = 60.0});
  }
  run.steps = {{.begin = Instant(0), .end = run::extent(run.timeline)->end, .samples = 128}};
  return run;
}

void measure(benchmark::State& state) {
  const run::Run run = step(static_cast<int32_t>(state.range(0)), state.range(1) != 0);
  for (auto _ : state)
    benchmark::DoNotOptimize(metrics::measure(run));
}
BENCHMARK(measure)->Args({32, 0})->Args({32, 1})->Args({1024, 0})->Args({1024, 1})->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace triplepoint
