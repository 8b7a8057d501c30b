// SPDX-License-Identifier: Apache-2.0
// What one step of a job costs the engine: schedules by dependencies, and event by event
// over shared NICs.
#include <benchmark/benchmark.h>

#include "triplepoint/sim/simulate_schedule.h"

namespace triplepoint::sim {
namespace {

/// Equal replicas of a 1F1B pipeline, one lockstep group per node and stage; a node has an egress
/// and an ingress link. Replica r of a stage lives on the same node as all others, so that they
/// meet on its NICs.
struct Replicas {
  std::vector<workload::StageProgram> programs;
  std::vector<std::vector<StageTimes>> pipelines;
  std::vector<std::vector<StageBoundaries>> boundaries;
  std::vector<BytesPerSecond> capacities;

  Replicas(int64_t stages, int64_t microbatches, int replicas, bool linked)
      : programs(workload::build_schedule(spec::Schedule::one_f_one_b, stages, microbatches, 1)) {
    for (int r = 0; r < replicas; ++r) {
      // Boards differ, and so do replicas.
      const Seconds forward = (1 + 0.001 * r) * unit::ms;
      std::vector<StageTimes> times;
      for (const workload::StageProgram& program : programs)
        times.push_back({.program = &program, .durations = {{forward, 2 * forward, {}, {}}}});
      pipelines.push_back(std::move(times));
      boundaries.push_back(chain(static_cast<int32_t>(stages), linked));
    }
    if (linked) capacities.assign(static_cast<size_t>(2 * stages), 10 * unit::GB / unit::s);
  }

  /// Link 2 s leaves the node of stage s, link 2 s + 1 enters it.
  static std::vector<StageBoundaries> chain(int32_t stages, bool linked) {
    std::vector<StageBoundaries> boundaries;
    for (int32_t s = 0; s < stages; ++s) {
      const auto to = [&](int32_t neighbour) {
        Boundary boundary{.bytes_per_rank = 2 * unit::MB,
                          .latency = 20 * unit::us,
                          .transfer = 200 * unit::us,
                          .links = {}};
        if (linked) boundary.links = {{2 * s, 1}, {2 * neighbour + 1, 1}};
        return boundary;
      };
      boundaries.push_back(
          {.next = to((s + 1) % stages), .previous = to((s + stages - 1) % stages)});
    }
    return boundaries;
  }
};

void simulate_replicas(benchmark::State& state, bool linked) {
  const auto replicas = static_cast<int>(state.range(0));
  const Replicas job(state.range(1), state.range(2), replicas, linked);
  const Wiring wiring(job.boundaries, job.capacities, SendMode::blocking);
  for (auto _ : state)
    benchmark::DoNotOptimize(simulate_schedule(job.pipelines, wiring, {.gap = 10 * unit::us}));
  const int64_t actions = state.range(0) * state.range(1) * state.range(2) * 2;
  state.counters["per action"] = benchmark::Counter(
      static_cast<double>(actions),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Replicas, stages, microbatches.
void simulate_apart(benchmark::State& state) {
  simulate_replicas(state, false);
}
BENCHMARK(simulate_apart)
    ->Args({1, 32, 128})
    ->Args({1, 64, 512})
    ->Args({8, 4, 128})
    ->Unit(benchmark::kMillisecond);

void simulate_over_shared_links(benchmark::State& state) {
  simulate_replicas(state, true);
}
BENCHMARK(simulate_over_shared_links)
    ->Args({1, 32, 128})
    ->Args({1, 64, 512})
    ->Args({2, 16, 128})
    ->Args({8, 4, 128})
    ->Unit(benchmark::kMillisecond);

void make_wiring(benchmark::State& state) {
  const Replicas job(state.range(1), 1, static_cast<int>(state.range(0)), true);
  for (auto _ : state)
    benchmark::DoNotOptimize(Wiring(job.boundaries, job.capacities, SendMode::blocking));
}
BENCHMARK(make_wiring)->Args({8, 4})->Args({16, 64})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace triplepoint::sim
