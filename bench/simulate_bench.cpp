// SPDX-License-Identifier: Apache-2.0
// Whole jobs: what a user waits for, without starting the program and reading files.
#include <benchmark/benchmark.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint {
namespace {

spec::Job gpt3_on(const char* cluster, int64_t nodes, int64_t tensor, int64_t pipeline,
                  int64_t batch) {
  const spec::Library library = spec::default_library();
  spec::Job job;
  job.model = *spec::load_model(library, "gpt3-175b");
  job.cluster = *spec::load_cluster(library, cluster);
  job.cluster.num_nodes = nodes;
  job.stack = *spec::load_stack(library, "nemo-profiled");
  job.plan.tensor_parallel_size = tensor;
  job.plan.pipeline_parallel_size = pipeline;
  job.plan.sequence_parallel = true;
  job.plan.recompute = spec::Recompute::full;
  job.plan.global_batch_size = batch;
  return job;
}

void paper_job_to_steady_state(benchmark::State& state) {
  const spec::Job job = gpt3_on("hgx-h200", 4, 2, 16, 128);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(metrics::measure(sim::simulate(job, {})));
}
BENCHMARK(paper_job_to_steady_state)->Unit(benchmark::kMillisecond);

void thousand_gpus_to_steady_state(benchmark::State& state) {
  const spec::Job job = gpt3_on("hgx-h100", 128, 8, 8, 1024);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(metrics::measure(sim::simulate(job, {})));
}
BENCHMARK(thousand_gpus_to_steady_state)->Unit(benchmark::kMillisecond);

void ten_minutes_of_32_gpus(benchmark::State& state) {
  const spec::Job job = gpt3_on("hgx-h200", 4, 2, 16, 128);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(
        sim::simulate(job, {.duration = 600 * unit::s, .steps = {}, .timeline = true}));
}
BENCHMARK(ten_minutes_of_32_gpus)->Unit(benchmark::kMillisecond);

void hundred_thousand_gpus_to_steady_state(benchmark::State& state) {
  const spec::Job job = gpt3_on("dgx-h200", 12500, 8, 4, 100000);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false}));
}
BENCHMARK(hundred_thousand_gpus_to_steady_state)->Unit(benchmark::kMillisecond)->Iterations(1);

void ten_minutes_of_1024_gpus(benchmark::State& state) {
  const spec::Job job = gpt3_on("hgx-h100", 128, 8, 8, 512);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(
        sim::simulate(job, {.duration = 600 * unit::s, .steps = {}, .timeline = false}));
}
BENCHMARK(ten_minutes_of_1024_gpus)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace triplepoint
