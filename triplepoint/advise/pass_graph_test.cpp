// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/pass_graph.h"

#include <doctest/doctest.h>

#include "triplepoint/sim/schedule_engine.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::advise {
namespace {

using workload::ActionKind;

/// A pipeline whose stages take different times, pipeline by the simulator's own scheduler.
struct TestPipeline {
  spec::Schedule schedule = spec::Schedule::one_f_one_b;
  size_t stages = 4, chunks = 1;
  int64_t microbatches = 8;
  sim::SendMode mode = sim::SendMode::blocking;
  sim::ScheduleRules rules{.gap = 1e-5 * unit::s, .start = 1e-3 * unit::s};

  PassTimes times() const {
    PassTimes times(stages);
    for (size_t s = 0; s < stages; ++s)
      for (size_t c = 0; c < chunks; ++c) {
        const double length = 1 + 0.1 * static_cast<double>((3 * s + c) % 4);
        times[s].push_back(
            {length * unit::ms, 2 * length * unit::ms, length * unit::ms, 0.9 * length * unit::ms});
      }
    return times;
  }

  std::vector<sim::StageTimeline> timelines(const PassTimes& times) const {
    const auto programs = workload::build_schedule(schedule, static_cast<int64_t>(stages),
                                                   microbatches, static_cast<int64_t>(chunks));
    std::vector<sim::StageTimes> of(stages);
    for (size_t s = 0; s < stages; ++s)
      of[s] = {.program = &programs[s], .durations = times[s]};
    std::vector<sim::Wire> wires(2 * stages);
    for (sim::Wire& wire : wires)
      wire.alone = 2e-5 * unit::s;
    sim::LinkedPipeline engine;
    engine.start(of, wires, mode, rules);
    engine.run();
    return take_timeline(engine);
  }

  PassGraph graph() const { return {timelines(times()), chunks, mode, rules}; }
};

std::vector<TestPipeline> few() {
  return {
      {},
      {.schedule = spec::Schedule::gpipe},
      {.schedule = spec::Schedule::zero_bubble},
      {.schedule = spec::Schedule::interleaved, .chunks = 2},
      {.schedule = spec::Schedule::interleaved, .chunks = 2, .mode = sim::SendMode::overlapped}};
}

TEST_CASE(
    "the graph of passes ends every stage when the scheduler does, also with other durations") {
  for (const TestPipeline& pipeline : few()) {
    PassGraph graph = pipeline.graph();
    for (const double longer : {1.0, 1.3}) {
      PassTimes times = pipeline.times();
      for (auto& kinds : times[1])
        for (Seconds& duration : kinds)
          duration *= longer;
      graph.update(times);
      const auto expected = pipeline.timelines(times);
      for (size_t s = 0; s < pipeline.stages; ++s)
        CHECK(graph.finishes()[s] / unit::ms ==
              doctest::Approx(expected[s].finish / unit::ms).epsilon(1e-9));
    }
  }
}

TEST_CASE("some pass has no slack, none has less than none") {
  for (const TestPipeline& pipeline : few()) {
    PassGraph graph = pipeline.graph();
    graph.update(pipeline.times());
    Seconds end;
    for (const Seconds finish : graph.finishes())
      end = std::max(end, finish);
    const std::vector<Seconds> slack = graph.slacks(std::vector<Seconds>(pipeline.stages, end));
    const auto least = *std::min_element(slack.begin(), slack.end());
    CHECK(abs(least) < 1e-9 * unit::s);
  }
}

TEST_CASE("a longer pass delays the end by as often as it lies on the critical path") {
  for (const TestPipeline& pipeline : few()) {
    PassGraph graph = pipeline.graph();
    graph.update(pipeline.times());
    const Seconds before = graph.finishes()[0];
    const auto counts = graph.critical_counts(0);
    const Seconds bit = 1e-9 * unit::s;
    PassTimes times = pipeline.times();
    times[2][0][static_cast<size_t>(ActionKind::forward)] += bit;
    graph.update(times);
    const int32_t count = counts[2][0][static_cast<size_t>(ActionKind::forward)];
    CHECK((graph.finishes()[0] - before) / bit == doctest::Approx(count).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace triplepoint::advise
