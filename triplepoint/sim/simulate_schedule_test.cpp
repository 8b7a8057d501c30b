// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate_schedule.h"

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;
using spec::Schedule;
using workload::ActionKind;

constexpr Seconds forward_time = 1 * unit::ms, backward_time = 2 * unit::ms;

/// p equal stages; forward 1 ms and backward 2 ms per stage, split evenly over its chunks.
struct EqualPipeline : TestJob {
  EqualPipeline(Schedule schedule, int64_t p, int64_t m, int64_t v, Seconds wire = {}) {
    const double share = 1.0 / as_real(v);
    add_pipeline(*this, workload::build_schedule(schedule, p, m, v), as_size(v),
                 share * forward_time, share * backward_time, fixed_send(wire));
  }
  Seconds total(SendMode mode = SendMode::blocking) const {
    return finish_of(timelines(mode).front());
  }
};

double scheduled_bubble(Schedule schedule, int64_t p, int64_t m, int64_t v) {
  const Seconds busy = as_real(m) * (forward_time + backward_time);
  return 1 - busy / EqualPipeline(schedule, p, m, v).total();
}

TEST_CASE("a simulated pipeline has the bubble of the closed form") {
  for (const int64_t p : {1, 2, 4, 8, 16})
    for (const int64_t m : {16, 32, 128}) {
      CAPTURE(p);
      CAPTURE(m);
      for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
        CHECK(scheduled_bubble(schedule, p, m, 1) ==
              Approx(workload::bubble_fraction(schedule, p, m, 1)).epsilon(1e-9));
      for (const int64_t v : {2, 4})
        CHECK(scheduled_bubble(Schedule::interleaved, p, m, v) ==
              Approx(workload::bubble_fraction(Schedule::interleaved, p, m, v)).epsilon(1e-9));
    }
}

TEST_CASE("zero-bubble H1 with equal thirds has the bubble of the closed form") {
  for (const int64_t p : {2, 4, 8})
    for (const int64_t m : {8, 32}) {
      const Seconds busy = as_real(3 * m) * forward_time;
      CHECK(1 - busy / EqualPipeline(Schedule::zero_bubble, p, m, 1).total() ==
            Approx(workload::bubble_fraction(Schedule::zero_bubble, p, m, 1)).epsilon(1e-9));
    }
}

TEST_CASE("zero-bubble H1 is faster than 1F1B on the same work") {
  for (const int64_t p : {2, 4, 8})
    CHECK(EqualPipeline(Schedule::zero_bubble, p, 32, 1).total() <
          EqualPipeline(Schedule::one_f_one_b, p, 32, 1).total());
}

TEST_CASE("inference runs forwards only, and fills its pipeline once") {
  for (const int64_t p : {1, 4}) {
    TestJob job;
    add_pipeline(job, workload::build_forward_schedule(p, 16, 1), 1, forward_time, {},
                 fixed_send({}));
    CHECK(finish_of(job.timelines().front()) / forward_time == Approx(16.0 + p - 1));
  }
}

TEST_CASE("one microbatch takes all stages' time and the wire between them, both ways") {
  constexpr Seconds wire = 0.5 * unit::ms;
  const Seconds total = EqualPipeline(Schedule::one_f_one_b, 4, 1, 1, wire).total();
  CHECK(total / unit::ms == Approx(4 * 3 + 2 * 3 * 0.5));
}

TEST_CASE("what a stage waits, works and sends fills its time") {
  EqualPipeline pipeline(Schedule::one_f_one_b, 8, 32, 1, 0.1 * unit::ms);
  pipeline.rules = {.gap = 0.2 * unit::ms, .start = 3 * unit::ms};
  const auto timelines = pipeline.timelines();
  for (const StageTimeline& stage : timelines.front())
    CHECK((stage.waited + stage.worked + stage.sent + 3 * unit::ms) / unit::ms ==
          Approx(stage.finish / unit::ms));
}

TEST_CASE("sends that do not block never make a step longer") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble}) {
    const EqualPipeline pipeline(schedule, 8, 32, 1, 0.3 * unit::ms);
    CHECK(pipeline.total(SendMode::overlapped) < pipeline.total(SendMode::blocking));
  }
}

TEST_CASE("overlapped sends over one boundary leave one after the other") {
  // The wire is slower than the work, so that sends pile up.
  const EqualPipeline pipeline(Schedule::gpipe, 2, 16, 1, 2.5 * unit::ms);
  const std::vector<StageTimeline> timelines = pipeline.timelines(SendMode::overlapped).front();
  Seconds free;
  for (const ActionTimes& action : timelines[0].actions) {
    if (action.action.kind != ActionKind::forward) continue;
    CHECK(action.end + action.queued >= free - 1 * unit::ns);
    free = arrival_of(action);
  }
  CHECK(free / unit::ms == Approx(1 + 16 * 2.5));
}

TEST_CASE("microbatches sent together are a pipeline of fewer, longer microbatches") {
  constexpr Seconds wire = 0.3 * unit::ms;
  for (const int64_t together : {2, 4})
    for (const int64_t p : {2, 4, 8}) {
      CAPTURE(together);
      CAPTURE(p);
      constexpr int64_t m = 16;
      spec::Job spec_job;
      spec_job.cluster.num_nodes = 1;
      spec_job.cluster.gpus_per_node = p;
      spec_job.plan.pipeline_parallel_size = p;
      spec_job.plan.global_batch_size = m;
      spec_job.plan.sends = spec::PipelineSends{.microbatches = together};
      Boundary send = fixed_send(wire);
      send.microbatches = static_cast<int32_t>(together);
      TestJob grouped, longer;
      add_pipeline(grouped, workload::build_programs(spec_job), 1, forward_time, backward_time,
                   send);
      const auto factor = as_real(together);
      add_pipeline(longer, workload::build_schedule(Schedule::one_f_one_b, p, m / together, 1), 1,
                   factor * forward_time, factor * backward_time, fixed_send(wire));
      for (const SendMode mode : {SendMode::blocking, SendMode::overlapped})
        CHECK(finish_of(grouped.timelines(mode).front()) / unit::ms ==
              Approx(finish_of(longer.timelines(mode).front()) / unit::ms));
    }
}

TEST_CASE("replicas that share nothing run as if each were alone, equal or not") {
  EqualPipeline job(Schedule::one_f_one_b, 4, 8, 1, 0.1 * unit::ms);
  const auto alone = job.timelines().front();
  for (const Seconds forward : {forward_time, 2 * forward_time, forward_time}) {
    job.boundaries.push_back(job.boundaries.front());
    job.pipelines.push_back(job.pipelines.front());
    for (StageTimes& stage : job.pipelines.back())
      stage.durations.front()[0] = forward;
  }
  const auto timelines = job.timelines();
  CHECK(same_bits(timelines[0], alone));
  CHECK(same_bits(timelines[1], alone));
  CHECK(finish_of(timelines[2]) > finish_of(alone));
  CHECK(same_bits(timelines[3], alone));
}

TEST_CASE("each further microbatch costs what the slowest stage takes for it") {
  const auto total = [](int64_t microbatches) {
    EqualPipeline pipeline(Schedule::one_f_one_b, 4, microbatches, 1);
    pipeline.pipelines.front()[2].durations.front()[0] += 1 * unit::ms;
    return pipeline.total();
  };
  CHECK((total(256) - total(128)) / unit::ms == Approx(128 * 4));
}

}  // namespace
}  // namespace triplepoint::sim
