// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/play.h"

#include <doctest/doctest.h>

namespace triplepoint::sim {
namespace {

using spec::Schedule;
using workload::ActionKind;

constexpr Seconds forward_time = 1 * unit::ms, backward_time = 2 * unit::ms;

/// p equal stages; forward 1 ms and backward 2 ms per stage, split evenly over its chunks.
struct EqualPipeline {
  std::vector<workload::StageProgram> programs;
  std::vector<StageTimes> stages;

  EqualPipeline(Schedule schedule, int64_t p, int64_t m, int64_t v, Seconds wire = {})
      : programs(workload::build_schedule(schedule, p, m, v)) {
    const double share = 1.0 / static_cast<double>(v);
    for (const workload::StageProgram& program : programs) {
      StageTimes times{.program = &program, .durations = {}, .send_next = wire, .send_previous = wire};
      times.durations.assign(static_cast<size_t>(v),
                             {share * forward_time, share * backward_time, share * forward_time, share * forward_time});
      stages.push_back(times);
    }
  }

  Seconds total(const PlayRules& rules = {}) const {
    Seconds end;
    for (const PlayedStage& stage : play(stages, rules)) end = std::max(end, stage.finish);
    return end;
  }
};

double played_bubble(Schedule schedule, int64_t p, int64_t m, int64_t v) {
  const Seconds busy = static_cast<double>(m) * (forward_time + backward_time);
  const Seconds total = EqualPipeline(schedule, p, m, v).total();
  return 1 - busy / total;
}

TEST_CASE("a played pipeline has the bubble of the closed form") {
  for (const int64_t p : {1, 2, 4, 8, 16})
    for (const int64_t m : {16, 32, 128}) {
      CAPTURE(p);
      CAPTURE(m);
      for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
        CHECK(played_bubble(schedule, p, m, 1) ==
              doctest::Approx(workload::bubble_fraction(schedule, p, m, 1)).epsilon(1e-9));
      for (const int64_t v : {2, 4})
        CHECK(played_bubble(Schedule::interleaved, p, m, v) ==
              doctest::Approx(workload::bubble_fraction(Schedule::interleaved, p, m, v)).epsilon(1e-9));
    }
}

TEST_CASE("zero-bubble H1 plays faster than 1F1B on the same work") {
  for (const int64_t p : {2, 4, 8})
    CHECK(EqualPipeline(Schedule::zero_bubble, p, 32, 1).total() <
          EqualPipeline(Schedule::one_f_one_b, p, 32, 1).total());
}

TEST_CASE("one microbatch takes all stages' time and the wire between them, both ways") {
  constexpr Seconds wire = 0.5 * unit::ms;
  const Seconds total = EqualPipeline(Schedule::one_f_one_b, 4, 1, 1, wire).total();
  CHECK(total / unit::ms == doctest::Approx(4 * 3 + 2 * 3 * 0.5));
}

TEST_CASE("what a stage waits, works and sends fills its time") {
  const EqualPipeline pipeline(Schedule::one_f_one_b, 8, 32, 1, 0.1 * unit::ms);
  for (const PlayedStage& stage : play(pipeline.stages, {.gap = 0.2 * unit::ms, .start = 3 * unit::ms}))
    CHECK((stage.waited + stage.worked + stage.sent + 3 * unit::ms) / unit::ms ==
          doctest::Approx(stage.finish / unit::ms));
}

TEST_CASE("sends that do not block never make a step longer") {
  const EqualPipeline pipeline(Schedule::one_f_one_b, 8, 32, 1, 0.3 * unit::ms);
  CHECK(pipeline.total({.gap = {}, .sends_block = false, .start = {}}) < pipeline.total());
}

TEST_CASE("the slowest stage sets the pace of a long pipeline") {
  EqualPipeline pipeline(Schedule::one_f_one_b, 4, 256, 1);
  const Seconds before = pipeline.total();
  for (auto& durations : pipeline.stages[2].durations) durations[0] += 1 * unit::ms;
  const double slower = (pipeline.total() - before) / unit::ms;
  CHECK(slower >= 250);
  CHECK(slower < 256 + 8);
}

}  // namespace
}  // namespace triplepoint::sim
