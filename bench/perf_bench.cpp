// SPDX-License-Identifier: Apache-2.0
// Fair rates, once per change of traffic.
#include <benchmark/benchmark.h>

#include "triplepoint/base/random.h"

#include "triplepoint/perf/fair_share.h"

namespace triplepoint::perf {
namespace {

/// Random pairs of hosts on a leaf-spine fabric of 16 hosts a leaf, 2:1 oversubscribed.
void share_fabric(benchmark::State& state) {
  const std::int64_t hosts = 512, leaves = hosts / 16;
  std::vector<BytesPerSecond> capacities(static_cast<std::size_t>(2 * hosts),
                                         50 * unit::GB / unit::s);
  capacities.resize(static_cast<std::size_t>(2 * (hosts + leaves)), 400 * unit::GB / unit::s);
  std::vector<Flow> flows;
  std::uint64_t draw = 0;
  const auto host = [&] {
    return static_cast<std::int32_t>(random_uniform({.seed = 1, .stream = 1}, draw++) *
                                     static_cast<double>(hosts));
  };
  for (std::int64_t f = 0; f < state.range(0); ++f) {
    const std::int32_t from = host(), to = host();
    const auto n = static_cast<std::int32_t>(hosts), l = static_cast<std::int32_t>(leaves);
    flows.push_back(
        {.links = {from, 2 * n + from / 16, 2 * n + l + to / 16, n + to}, .own_limit = {}});
  }
  FairShareScratch scratch;
  std::vector<BytesPerSecond> rates(flows.size());
  for (auto _ : state) {
    fair_rates(flows, capacities, scratch, rates);
    benchmark::DoNotOptimize(rates.data());
  }
}
BENCHMARK(share_fabric)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace triplepoint::perf
