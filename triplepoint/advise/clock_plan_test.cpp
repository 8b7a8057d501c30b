// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/clock_plan.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/pass_graph.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/sim/schedule_engine.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::advise {
namespace {

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
        const double length = 1 + 0.1 * as_real((3 * s + c) % 4);
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
    const Seconds end = most_of(graph.finishes());
    const std::vector<Seconds> slack = graph.slacks(std::vector<Seconds>(pipeline.stages, end));
    const auto least = *std::ranges::min_element(slack);
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
    times[2][0][as_size(workload::ActionKind::forward)] += bit;
    graph.update(times);
    const int32_t count = counts[2][0][as_size(workload::ActionKind::forward)];
    CHECK((graph.finishes()[0] - before) / bit == doctest::Approx(count).epsilon(1e-3));
  }
}

spec::Job job_on(const std::string& cluster, int64_t layers, int64_t nodes) {
  const spec::Library library = spec::default_library();
  spec::Job job;
  job.name = "clocks";
  job.model = must(spec::load_model(library, "llama3-70b"));
  job.model.num_layers = layers;
  job.cluster = must(spec::load_cluster(library, cluster));
  job.cluster.num_nodes = nodes;
  job.stack = must(spec::load_stack(library, "megatron-core"));
  return job;
}

/// Four stages on one node, the second with more layers than the others.
spec::Job uneven_job(const std::string& cluster = "dgx-h100") {
  spec::Job job = job_on(cluster, 12, 1);
  job.plan.tensor_parallel_size = 2;
  job.plan.pipeline_parallel_size = 4;
  job.plan.sequence_parallel = true;
  job.plan.global_batch_size = 32;
  job.plan.layers_per_stage = {2, 6, 2, 2};
  return job;
}

/// No device waits: every device holds the whole model, and all are equal.
spec::Job lonely_job() {
  spec::Job job = job_on("dgx-h100", 1, 1);
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.gpu.governor->target_temperature.reset();
  job.environment.power_limit = 2 * unit::kW;  // never reached, so slots make no difference
  job.plan.global_batch_size = 64;
  return job;
}

TEST_CASE("clocks that must not cost time cost no time and no energy") {
  for (const char* cluster : {"dgx-h100", "hgx-h200", "mi300x"}) {
    const ClockPlan plan = plan_clocks(uneven_job(cluster), {.most_slowdown = 0});
    REQUIRE(plan.fits);
    REQUIRE(plan.frontier.size() == 1);
    CHECK(plan.frontier[0].slowdown <= schedule_tolerance);
    CHECK(plan.frontier[0].saving > 0);
    CHECK(plan.nothing.empty());
  }
}

TEST_CASE("what a frontier promises holds on average over machines it was not planned on") {
  const spec::Job job = uneven_job();
  const ClockPlan plan = plan_clocks(job, {.most_slowdown = 0.02});
  REQUIRE(!plan.frontier.empty());
  const ClockPoint& point = plan.frontier.back();
  CHECK(point.savings.machines == drawn_machine_count);
  double longer = 0, saved = 0;
  constexpr uint64_t others = 16;
  for (uint64_t seed = 101; seed < 101 + others; ++seed) {
    spec::Job drawn = job;
    drawn.environment.seed = seed;
    const metrics::Metrics before = metrics::measure(sim::simulate(drawn, {}));
    drawn.environment.device_clock_limits = point.clocks;
    const metrics::Metrics after = metrics::measure(sim::simulate(drawn, {}));
    longer += (*after.step_time / *before.step_time - 1) / others;
    saved += (1 - *after.energy_j / *before.energy_j) / others;
  }
  CHECK(longer < point.allowed + 2e-3);
  CHECK(saved == doctest::Approx(point.saving).epsilon(0.1));
}

TEST_CASE("clocks are planned under the job's faults, fans and heat paths included") {
  spec::Job job = on_expected_machine(uneven_job());
  job.environment.ambient = Celsius(35);
  const Seconds healthy = *sim::find_steady_step_time(job);
  job.environment.faults = {*spec::parse_fault("fan=0.3")};
  const Seconds step = *sim::find_steady_step_time(job);
  REQUIRE(step > 1.01 * healthy);
  const ClockPlan plan = plan_clocks(job, {.most_slowdown = 0});
  CHECK(plan.baseline.time / unit::s == doctest::Approx(step / unit::s).epsilon(1e-9));
}

TEST_CASE("along the frontier time rises and energy falls") {
  const ClockPlan plan = plan_clocks(uneven_job(), {});
  REQUIRE(plan.frontier.size() > 2);
  for (size_t i = 1; i < plan.frontier.size(); ++i) {
    CHECK(plan.frontier[i].step.time > plan.frontier[i - 1].step.time);
    CHECK(plan.frontier[i].step.energy < plan.frontier[i - 1].step.energy);
  }
  for (const ClockPoint& point : plan.frontier)
    CHECK(point.slowdown <= std::max(point.allowed, schedule_tolerance));
}

TEST_CASE("where hosts and fans count, longer steps save less, and the frontier ends earlier") {
  spec::Job job = uneven_job();
  job.environment.pue = 1.5;
  const auto plan_in = [&](metrics::EnergyScope scope) {
    return plan_clocks(job, {.scope = scope, .most_slowdown = 0.05});
  };
  const ClockPlan gpus = plan_in(metrics::EnergyScope::gpu),
                  site = plan_in(metrics::EnergyScope::site);
  CHECK(site.baseline.energy > 1.5 * site.baseline.device_energy);
  REQUIRE(!site.frontier.empty());
  CHECK(site.frontier.back().slowdown <= gpus.frontier.back().slowdown + 1e-9);
  for (const ClockPoint& point : site.frontier) {
    const double at_site = search::scope_power(metrics::EnergyScope::site, job, point.step.mean) *
                           point.step.time / site.baseline.energy;
    CHECK(point.saving == doctest::Approx(1 - at_site).epsilon(0.02));
    CHECK(point.saving < point.device_saving);
  }
}

TEST_CASE("who works longest keeps its clock, and the others are told what they wait for") {
  const spec::Job job = uneven_job();
  const ClockPlan plan = plan_clocks(job, {.most_slowdown = 0});
  REQUIRE(plan.frontier.size() == 1);
  const auto kept = [&](size_t device) {  // share of today's clock that its limit leaves
    const double today =
        plan.baseline.clock_ratio[device] * (*job.cluster.gpu.max_clock / unit::MHz);
    return plan.frontier[0].clocks[device] / unit::MHz / today;
  };
  const double busiest = std::min(kept(2), kept(3));  // two devices a stage
  CHECK(busiest > 1);
  for (const size_t device : {0, 1, 4, 5, 6, 7})
    CHECK(kept(device) < 1);
  for (const StageSlack& stage : plan.stages)
    CHECK(!reason_of(plan, stage, 0).empty());
}

TEST_CASE("without waiting no energy is saved at equal time, and the plan states it") {
  const ClockPlan plan = plan_clocks(lonely_job(), {.most_slowdown = 0});
  REQUIRE(plan.fits);
  CHECK(plan.frontier.empty());
  CHECK(plan.nothing.find("No clock saves energy of the GPUs") != std::string::npos);
}

TEST_CASE("clocks and caps stay within what the device and the job allow") {
  spec::Job job = uneven_job();
  job.environment.power_limit = 500 * unit::W;
  const ClockPlan plan = plan_clocks(job, {.most_slowdown = 0.05});
  REQUIRE(!plan.frontier.empty());
  for (const ClockPoint& point : plan.frontier)
    for (size_t d = 0; d < point.clocks.size(); ++d) {
      CHECK(point.clocks[d] <= *job.cluster.gpu.max_clock);
      CHECK(point.clocks[d] >= job.cluster.gpu.governor->min_clock);
      CHECK(point.caps[d] <= *job.environment.power_limit);
    }
}

TEST_CASE("any number of threads plans the same clocks") {
  spec::Job job = uneven_job();
  job.plan.pipeline_parallel_size = 2;
  job.plan.layers_per_stage = {5, 7};
  const ClockPlan one = plan_clocks(job, {.most_slowdown = 0.02, .threads = 1});
  const ClockPlan two = plan_clocks(job, {.most_slowdown = 0.02, .threads = 2});
  REQUIRE(one.frontier.size() == two.frontier.size());
  for (size_t i = 0; i < one.frontier.size(); ++i) {
    CHECK(one.frontier[i].clocks == two.frontier[i].clocks);
    CHECK(one.frontier[i].step.energy == two.frontier[i].step.energy);
  }
}

TEST_CASE("the script names every GPU of every node once, the table every rank") {
  const spec::Job job = uneven_job();
  const ClockPlan plan = plan_clocks(job, {.most_slowdown = 0});
  REQUIRE(!plan.frontier.empty());
  const std::string script = clock_script(job, plan, plan.frontier[0]);
  for (int gpu = 0; gpu < 8; ++gpu)
    CHECK(script.find("nvidia-smi -i " + std::to_string(gpu) + " -lgc ") != std::string::npos);
  const std::string csv = clock_csv(job, plan, plan.frontier[0]);
  CHECK(std::ranges::count(csv, '\n') == 1 + job.world_size());
}

}  // namespace

}  // namespace triplepoint::advise
