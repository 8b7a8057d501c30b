// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/job_testing.h"

#include "triplepoint/sim/simulate.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::sim {
namespace {

/// Two nodes, a replica on each.
spec::Job job_with(std::initializer_list<const char*> faults, int pipeline = 1) {
  spec::Job with = spec::job_of_text(fmt::format(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 8
pipeline_parallel_size = {}
global_batch_size = 32
)",
                                                 pipeline));
  for (const char* text : faults) {
    const auto fault = spec::parse_fault(text);
    REQUIRE(fault.has_value());
    with.environment.faults.push_back(*fault);
  }
  REQUIRE(!spec::has_errors(spec::diagnose(with)));
  return with;
}

run::Run simulated(const spec::Job& job, double seconds) {
  return TransientSimulation(job).advance(seconds * unit::s);
}
run::Run settled(const spec::Job& job) {
  return simulate(job, {.timeline = false});
}
Seconds step_time(const run::Run& run) {
  return run.steps.back().end - run.steps.back().begin;
}

/// Mean of the steps that end within a stretch.
double mean_step(const run::Run& run, double from, double to) {
  double sum = 0, count = 0;
  for (const run::StepRecord& step : run.steps)
    if (step.end > instant_at(from * unit::s) && step.end <= instant_at(to * unit::s))
      sum += (step.end - step.begin) / unit::s, ++count;
  REQUIRE(count > 0);
  return sum / count;
}

/// The value of a series at a whole second.
double at_second(const run::Run& run, const char* signal, int32_t device, int second) {
  const run::Series* series = run::find_series(run, signal, device);
  REQUIRE(series != nullptr);
  for (size_t i = 0; i < series->times.size(); ++i)
    if (series->times[i] >= instant_at(second * unit::s)) return series->values[i];
  return series->values.back();
}

TEST_CASE("a fault after what is simulated changes nothing, bit for bit") {
  const run::Run fault_free = simulated(job_with({}), 30),
                 later = simulated(job_with({"power=0.5@31s"}), 30);
  CHECK(fault_free.series == later.series);
  CHECK(fault_free.steps == later.steps);
}

TEST_CASE("one braked GPU holds up the job while it is braked, and no longer") {
  const run::Run run = simulated(job_with({"gpu=3,power=0.3@40s..80s"}), 120);
  const Watts limit = *job_with({}).cluster.gpu.tdp;
  CHECK(mean_step(run, 45, 80) > 1.05 * mean_step(run, 10, 40));
  CHECK(mean_step(run, 85, 120) == doctest::Approx(mean_step(run, 10, 40)).epsilon(0.01));
  for (int second = 45; second < 80; ++second)
    CHECK(at_second(run, "power_w", 3, second) <= 0.31 * (limit / unit::W));
  CHECK(at_second(run, "sm_clock_mhz", 3, 60) < at_second(run, "sm_clock_mhz", 4, 60));
}

TEST_CASE("a fan wall that fails warms its own node") {
  const run::Run fault_free = simulated(job_with({}), 200),
                 run = simulated(job_with({"node=1,fan=0.3@5s"}), 200);
  CHECK(at_second(run, "die_c", 12, 200) > at_second(fault_free, "die_c", 12, 200) + 1);
  CHECK(at_second(run, "die_c", 2, 200) ==
        doctest::Approx(at_second(fault_free, "die_c", 2, 200)).epsilon(0.01));
}

TEST_CASE("a warmer inlet and a dusty sink show in a steady state, where they are") {
  const run::Run fault_free = settled(job_with({})), heat = settled(job_with({"inlet=+8"})),
                 dust = settled(job_with({"gpu=5,heat_path=3"}));
  for (size_t d = 0; d < 16; ++d)
    CHECK(*heat.summaries[d].die_mean_c > *fault_free.summaries[d].die_mean_c);
  const auto rise = [&](size_t d) {
    return *dust.summaries[d].die_mean_c - *fault_free.summaries[d].die_mean_c;
  };
  for (size_t d = 0; d < 16; ++d)
    CHECK((rise(d) > 3) == (d == 5));
}

TEST_CASE("what has a time does not show in a steady state") {
  const run::Run fault_free = settled(job_with({})),
                 timed = settled(job_with({"power=0.3@10s..20s"}));
  CHECK(fault_free.summaries == timed.summaries);
}

TEST_CASE("slower links and hosts make no step shorter, and half a link less than a tenth") {
  for (const int pipeline : {1, 2}) {
    const Seconds fault_free = step_time(settled(job_with({}, pipeline)));
    const Seconds half = step_time(settled(job_with({"node=1,link=0.5"}, pipeline)));
    const Seconds tenth = step_time(settled(job_with({"node=1,link=0.1"}, pipeline)));
    CHECK(half >= fault_free);
    CHECK(tenth > half);
    CHECK(step_time(settled(job_with({"gpu=9,link=0.2"}, pipeline))) > fault_free);
    CHECK(step_time(settled(job_with({"node=0,host=20"}, pipeline))) > fault_free);
    CHECK(step_time(settled(job_with({"node=0,link=1"}, pipeline))) == fault_free);
  }
}

TEST_CASE("a flapping link costs between nothing and all of what a slow one costs") {
  const run::Run fault_free = simulated(job_with({}), 60),
                 slow = simulated(job_with({"gpu=9,link=0.1"}), 60),
                 flapping = simulated(job_with({"gpu=9,link=0.1,every=4s"}), 60);
  CHECK(flapping.steps.size() < fault_free.steps.size());
  CHECK(flapping.steps.size() > slow.steps.size());
}

TEST_CASE("a lost node stands the job still, cools it, and costs the work no checkpoint held") {
  const run::Run fault_free = simulated(job_with({}), 120);
  const run::Run lost = simulated(job_with({"node=1,lost=30s@60s"}), 120);
  const run::Run again = simulated(job_with({"node=1,lost=30s,every=50s@60s"}), 120);
  for (const run::StepRecord& step : lost.steps)
    CHECK((step.end <= instant_at(60 * unit::s) || step.begin >= instant_at(90 * unit::s)));
  CHECK(at_second(lost, "power_w", 0, 75) < 0.4 * at_second(lost, "power_w", 0, 55));
  CHECK(at_second(lost, "die_c", 0, 89) < at_second(lost, "die_c", 0, 59));
  CHECK(lost.steps.size() < fault_free.steps.size());
  CHECK(again.steps.size() < lost.steps.size());  // ten seconds were not in a checkpoint
}

TEST_CASE("limits of single devices are limits") {
  spec::Job all = job_with({}), each = all, locked = all;
  all.environment.power_limit = 450 * unit::W;
  each.environment.device_power_limits.assign(16, 450 * unit::W);
  CHECK(simulated(all, 20).series == simulated(each, 20).series);
  locked.environment.device_clock_limits.assign(16, 1200 * unit::MHz);
  locked.environment.device_clock_limits[4] = *all.cluster.gpu.max_clock;
  const run::Run run = settled(locked);
  const auto lowest = [&](size_t d) { return *run.summaries[d].sm_clock_min_mhz; };
  CHECK(lowest(3) <= 1200);
  CHECK(lowest(3) > 1150);
  CHECK(lowest(4) > 1200);
  CHECK(run.summaries[3].throttle.at("software_power_cap") == 0);
}

}  // namespace
}  // namespace triplepoint::sim
