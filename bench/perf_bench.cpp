// SPDX-License-Identifier: Apache-2.0
// The model calls a simulation makes most: kernels and collectives once per distinct op, fair rates
// once per change of traffic.
#include <benchmark/benchmark.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/fair_share.h"
#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::perf {
namespace {

spec::Cluster cluster() {
  return spec::load_cluster(spec::default_library(), "hgx-h200").value();
}

void time_gemm(benchmark::State& state) {
  const spec::Cluster hgx = cluster();
  spec::Op op;
  op.op_class = spec::OpClass::gemm;
  op.gemm = {.m = state.range(0), .n = 4608, .k = 12288};
  op.flops = 2.0 * static_cast<double>(op.gemm.m) * 4608 * 12288 * unit::FLOP;
  op.hbm_bytes = 200 * unit::MB;
  for (auto _ : state)
    benchmark::DoNotOptimize(kernel_time(hgx.gpu, op));
}
BENCHMARK(time_gemm)->Arg(256)->Arg(16384);

void time_norm(benchmark::State& state) {
  const spec::Cluster hgx = cluster();
  spec::Op op;
  op.op_class = spec::OpClass::norm;
  op.hbm_bytes = 100 * unit::MB;
  for (auto _ : state)
    benchmark::DoNotOptimize(kernel_time(hgx.gpu, op));
}
BENCHMARK(time_norm);

void ask_another_clock(benchmark::State& state) {
  const KernelTime time{.compute = 300 * unit::us, .memory = 100 * unit::us};
  double ratio = 0.5;
  for (auto _ : state) {
    ratio = ratio < 1 ? ratio + 0.0001 : 0.5;
    benchmark::DoNotOptimize(time.at(ratio));
  }
}
BENCHMARK(ask_another_clock);

void time_all_reduce(benchmark::State& state) {
  const spec::Cluster hgx = cluster();
  const GroupPlacement group{
      .ranks = 8 * state.range(0), .nodes = state.range(0), .ranks_per_node = 8};
  for (auto _ : state)
    benchmark::DoNotOptimize(
        collective_time(hgx, spec::Collective::all_reduce, 50 * unit::MB, group));
}
BENCHMARK(time_all_reduce)->Arg(1)->Arg(4);

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
BENCHMARK(share_fabric)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace triplepoint::perf
