// SPDX-License-Identifier: Apache-2.0
// A whole job: what a user waits for, without starting the program and reading files.
#include <benchmark/benchmark.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint {
namespace {

spec::Job paper_job() {
  const spec::Library library = spec::default_library();
  spec::Job job;
  job.model = *spec::load_model(library, "gpt3-175b");
  job.cluster = *spec::load_cluster(library, "hgx-h200");
  job.cluster.num_nodes = 4;
  job.stack = *spec::load_stack(library, "nemo-profiled");
  job.plan.tensor_parallel_size = 2;
  job.plan.pipeline_parallel_size = 16;
  job.plan.sequence_parallel = true;
  job.plan.recompute = spec::Recompute::full;
  job.plan.global_batch_size = 128;
  return job;
}

void paper_job_to_steady_state(benchmark::State& state) {
  const spec::Job job = paper_job();
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(metrics::measure(sim::simulate(job, {})));
}
BENCHMARK(paper_job_to_steady_state)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace triplepoint
