// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/work_graph.h"

namespace {

using namespace triplepoint;
using workload::test::Layout;

/// A study's longest program: 32 stages, 128 microbatches.
void build_paper_job(benchmark::State& state) {
  const spec::Job job = workload::test::gpt3_on_32({.tensor = 1, .pipeline = 32});
  for (auto _ : state)
    benchmark::DoNotOptimize(workload::build_work_graph(job));
}
BENCHMARK(build_paper_job)->Unit(benchmark::kMicrosecond);

/// 1,024 GPUs, 16 stages of 6 chunks, 96 microbatches.
void build_interleaved_job(benchmark::State& state) {
  spec::Job job = workload::test::with(workload::test::on_nodes(workload::test::gpt3_175b(), 128),
                                       {.tensor = 8, .pipeline = 16});
  job.plan.schedule = spec::Schedule::interleaved;
  job.plan.virtual_pipeline_size = 6;
  job.plan.global_batch_size = 96 * job.data_parallel_size();
  for (auto _ : state)
    benchmark::DoNotOptimize(workload::build_work_graph(job));
}
BENCHMARK(build_interleaved_job)->Unit(benchmark::kMicrosecond);

/// Every group's shape in a layout of 100,000 ranks.
void shape_large_grid(benchmark::State& state) {
  const spec::Job job = workload::test::with(
      workload::test::on_nodes(workload::test::mixtral_8x22b(), 12500), Layout{4, 5, 8});
  const workload::RankGrid grid(job);
  for (auto _ : state)
    for (int kind = 0; kind < spec::group_kind_count; ++kind)
      benchmark::DoNotOptimize(grid.shape(static_cast<spec::GroupKind>(kind)));
}
BENCHMARK(shape_large_grid)->Unit(benchmark::kMicrosecond);

}  // namespace
