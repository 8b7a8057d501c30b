// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/step.h"

#include <numeric>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/search/testing.h"
#include "triplepoint/sim/step_at_clocks.h"

namespace triplepoint::search {
namespace {

/// The machine of which every device and node is like the mean.
spec::Job without_spread(spec::Job job) {
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.chassis.inlet_spread = {};
  return job;
}

Seconds simulated_step(const spec::Job& job, Celsius die) {
  const workload::WorkGraph graph = workload::build_work_graph(job);
  sim::StepModel model(job, graph);
  const std::vector<Celsius> dies(as_size(job.world_size()), die);
  return simulate_step(model, choose_clocks(model, dies)).step_time;
}

TEST_CASE("a plan's step is that of the simulator on a machine without spread") {
  for (const spec::Job& spread : test::few_jobs()) {
    spec::Job job = without_spread(spread);
    const Space space(job, Reach::everything, {});
    const Typical typical = typical_of(job);
    CHECK(typical.host_factor == 1);
    StepEvaluator evaluator(job, typical);
    for (int64_t i = 11; i < space.size(); i += space.size() / 25) {
      job.plan = space.plan(i);
      CAPTURE(i);
      CHECK(evaluator.evaluate(job.plan).time ==
            doctest::Approx(simulated_step(job, typical.die) / unit::s).epsilon(1e-12));
    }
  }
}

TEST_CASE("the terms of a step add up to it, and none but rounding is below zero") {
  for (const spec::Job& job : test::few_jobs()) {
    const Space space(job, Reach::everything, {});
    StepEvaluator evaluator(job, typical_of(job));
    for (int64_t i = 5; i < space.size(); i += space.size() / 25) {
      const StepEstimate step = evaluator.evaluate(space.plan(i));
      const double sum = std::accumulate(step.terms.begin(), step.terms.end(), 0.0);
      CHECK(sum == doctest::Approx(step.time));
      for (size_t t = 0; t < term_count; ++t) {
        CAPTURE(name_of(static_cast<Term>(t)));
        CHECK(step.terms[t] > -1e-3 * step.time);
      }
    }
  }
}

using sim::SendMode;

/// A pipeline whose stages and boundaries all differ.
struct RandomPipeline {
  std::vector<workload::StageProgram> programs;
  std::vector<sim::StageTimes> times;
  std::vector<sim::StageBoundaries> boundaries;
};

RandomPipeline make_pipeline(spec::Schedule schedule, int64_t stages, int64_t microbatches,
                             int64_t chunks, uint64_t seed) {
  RandomPipeline made;
  made.programs = workload::build_schedule(schedule, stages, microbatches, chunks);
  uint64_t drawn = 0;
  const auto draw = [&] { return (0.1 + random_uniform({seed, 1}, drawn++)) * unit::ms; };
  for (const workload::StageProgram& program : made.programs) {
    sim::StageTimes stage{.program = &program};
    for (int64_t c = 0; c < chunks; ++c)
      stage.durations.push_back({draw(), draw(), draw(), draw()});
    made.times.push_back(std::move(stage));
    const auto boundary = [&] {
      return sim::Boundary{
          .bytes_per_rank = 1 * unit::MB, .latency = 0.01 * draw(), .transfer = 0.2 * draw()};
    };
    made.boundaries.push_back({boundary(), boundary()});
  }
  return made;
}

TEST_CASE("the finish-time scheduler ends every stage when the simulator does, to the bit") {
  struct Case {
    spec::Schedule schedule;
    int64_t stages, microbatches, chunks;
  };
  FinishTimeScheduler scheduler;
  for (const Case& each :
       {Case{spec::Schedule::one_f_one_b, 1, 3, 1}, Case{spec::Schedule::one_f_one_b, 5, 3, 1},
        Case{spec::Schedule::one_f_one_b, 8, 32, 1}, Case{spec::Schedule::gpipe, 4, 7, 1},
        Case{spec::Schedule::zero_bubble, 6, 17, 1}, Case{spec::Schedule::interleaved, 4, 12, 3},
        Case{spec::Schedule::interleaved, 4, 4, 2}})
    for (const SendMode mode : {SendMode::blocking, SendMode::overlapped})
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const RandomPipeline made =
            make_pipeline(each.schedule, each.stages, each.microbatches, each.chunks, seed);
        const sim::ScheduleRules rules{.gap = 7 * unit::us, .start = 3 * unit::ms};
        const std::vector<std::vector<sim::StageBoundaries>> boundaries = {made.boundaries};
        const sim::Wiring wiring(boundaries, {}, mode);
        const std::vector<std::vector<sim::StageTimes>> pipelines = {made.times};
        const auto simulated = sim::simulate_schedule(pipelines, wiring, rules);
        const auto quick = scheduler.finish_times(made.times, wiring.wires(0), mode, rules);
        for (size_t s = 0; s < quick.size(); ++s)
          CHECK(quick[s] == simulated[0][s].finish);
      }
}

TEST_CASE("where sends fit into shared links the finish-time scheduler is right about flows, too") {
  FinishTimeScheduler scheduler;
  int fitted = 0, crowded = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed)
    for (const double share : {0.01, 0.1, 1.}) {
      RandomPipeline made = make_pipeline(spec::Schedule::one_f_one_b, 4, 12, 1, seed);
      // Neighbours of a stage send into the same link; each alone would fill it.
      for (size_t s = 0; s < made.boundaries.size(); ++s)
        for (const bool next : {true, false}) {
          sim::Boundary& boundary = next ? made.boundaries[s].next : made.boundaries[s].previous;
          const size_t to = next ? (s + 1) % 4 : (s + 3) % 4;
          boundary.transfer = share * unit::ms;
          boundary.links = {{static_cast<int32_t>(to), 1}};
        }
      const std::vector<BytesPerSecond> capacities(4, 1 * unit::MB / (share * unit::ms));
      const std::vector<std::vector<sim::StageBoundaries>> boundaries = {made.boundaries};
      const sim::Wiring wiring(boundaries, capacities, SendMode::blocking);
      const sim::ScheduleRules rules{.gap = 7 * unit::us};
      const auto quick =
          scheduler.finish_times(made.times, wiring.wires(0), SendMode::blocking, rules);
      if (!scheduler.links_suffice(wiring, 0)) {
        ++crowded;
        continue;
      }
      ++fitted;
      const std::vector<std::vector<sim::StageTimes>> pipelines = {made.times};
      const auto simulated = sim::simulate_schedule(pipelines, wiring, rules);
      for (size_t s = 0; s < quick.size(); ++s)
        CHECK(quick[s] / unit::s ==
              doctest::Approx(simulated[0][s].finish / unit::s).epsilon(1e-12));
    }
  CHECK(fitted > 5);
  CHECK(crowded > 5);
}

}  // namespace

}  // namespace triplepoint::search
