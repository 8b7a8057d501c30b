// SPDX-License-Identifier: Apache-2.0
// What one plan costs the search at each fidelity, and a whole search.
#include <cstdlib>

#include <benchmark/benchmark.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/search/layout_scan.h"
#include "triplepoint/search/search.h"

namespace triplepoint::search {
namespace {

spec::Job gpt3_on_a100(int64_t nodes, int64_t batch) {
  const spec::Library library = spec::default_library();
  spec::Job job;
  job.model = *spec::load_model(library, "gpt3-175b");
  job.cluster = *spec::load_cluster(library, "dgx-a100");
  job.cluster.num_nodes = nodes;
  job.stack = *spec::load_stack(library, "nemo");
  job.plan.global_batch_size = batch;
  return job;
}

/// Closed forms of memory and time, enumeration and shared estimates included.
void bound_a_plan(benchmark::State& state) {
  const Space space(gpt3_on_a100(512, 4096), Reach::everything, *parse_fixed("cp=1,tp=8"));
  LayoutScan scan(space, {}, typical_of(space.base()));
  size_t layout = 0;
  int64_t plans = 0;
  for (auto _ : state) {
    scan.visit(layout, LayoutScan::every_plan,
               [](const VariantAt&, int64_t, const StepBound& bound) {
                 benchmark::DoNotOptimize(bound.time);
               });
    plans += space.variants(space.layouts()[layout]).count();
    layout = (layout + 1) % space.layouts().size();
  }
  state.counters["per plan"] = benchmark::Counter(
      static_cast<double>(plans), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(bound_a_plan)->Unit(benchmark::kMillisecond);

/// Stages, microbatches, chunks.
void simulate_a_plan(benchmark::State& state) {
  spec::Job job = gpt3_on_a100(64, 1);
  spec::Plan& plan = job.plan;
  plan.tensor_parallel_size = 8;
  plan.sequence_parallel = true;
  plan.pipeline_parallel_size = state.range(0);
  plan.virtual_pipeline_size = state.range(2);
  if (plan.virtual_pipeline_size > 1) plan.schedule = spec::Schedule::interleaved;
  const int64_t parts = plan.pipeline_parallel_size * plan.virtual_pipeline_size;
  job.model.num_layers = std::max<int64_t>(64, parts);
  plan.global_batch_size = state.range(1) * job.data_parallel_size();
  StepEvaluator evaluator(job, typical_of(job));
  for (auto _ : state)
    benchmark::DoNotOptimize(evaluator.evaluate(plan));
}
BENCHMARK(simulate_a_plan)
    ->Args({8, 64, 1})
    ->Args({64, 512, 1})
    ->Args({16, 256, 4})
    ->Unit(benchmark::kMillisecond);

/// GPT-3 175B on 4,096 A100 at batch 4,096; 1: without context parallelism, 0: all sizes of it.
void search_gpt3_on_4096(benchmark::State& state) {
  const Space space(gpt3_on_a100(512, 4096), Reach::everything,
                    *parse_fixed(state.range(0) == 1 ? "cp=1" : ""));
  for (auto _ : state)
    benchmark::DoNotOptimize(search(space, {}, {}, {.threads = 1}));
  state.counters["plans"] = static_cast<double>(space.size());
}
BENCHMARK(search_gpt3_on_4096)->Arg(1)->Arg(0)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace triplepoint::search
