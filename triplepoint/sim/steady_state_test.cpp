// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/steady_state.h"

#include <algorithm>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/job_testing.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/sim/jobs_testing.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

/// A job and its steady state.
struct Steady {
  explicit Steady(const spec::Job& job) : model(job), heat(model.job, model.hardware) {
    heat.set_conditions(model.conditions());
    step = solve_steady_state(model, heat);
  }
  StepModel model;
  ClusterHeat heat;
  CoupledStep step;
};

spec::Job hot_job(uint64_t seed, double inlet_rise) {
  spec::Job job = random_training_job(seed);
  job.cluster.chassis.inlet = job.cluster.chassis.inlet + inlet_rise * unit::K;
  return job;
}

TEST_CASE("at rest, power gives the temperatures that give the power") {
  for (uint64_t seed = 1; seed <= 5; ++seed)
    for (const double rise : {0., 15.}) {
      Steady job(hot_job(seed, rise));
      job.heat.solve_steady_state(mean_powers(job.step.accounted.devices));
      const std::vector<Celsius> dies = job.heat.dies();
      for (size_t d = 0; d < dies.size(); ++d)
        CHECK(dies[d].degrees() == Approx(job.step.dies[d].degrees()).epsilon(1e-3));
    }
}

TEST_CASE("at rest, the clocks give the step that is there, to the bit") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Steady job(random_training_job(seed));
    CHECK(simulate_step(job.model, job.step.clocks).step_time == job.step.timeline.step_time);
  }
}

TEST_CASE("at rest, heat holds a die at its target or the device at its lowest clock") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Steady job(hot_job(seed, 25));
    const auto held = clock::held_temperature(*job.model.job.cluster.gpu.governor);
    REQUIRE(held);
    for (size_t d = 0; d < job.step.dies.size(); ++d) {
      const double ceiling = job.step.clocks.heat_ceiling[d];
      if (ceiling < job.model.most_steps_down()) CHECK(job.step.dies[d] < *held + 0.5 * unit::K);
      if (ceiling > 0 && ceiling < job.model.most_steps_down())
        CHECK(job.step.dies[d] > *held - 1 * unit::K);
    }
  }
}

TEST_CASE("warmer air never cools a die and never shortens the step") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Seconds last;
    double hottest = 0;
    for (const double rise : {0., 6., 12., 18., 24.}) {
      const Steady job(hot_job(seed, rise));
      const double now = std::ranges::max_element(job.step.dies)->degrees();
      CHECK(now >= hottest - 0.1);
      CHECK(job.step.timeline.step_time >= last * (1 - 5e-4));
      hottest = now;
      last = job.step.timeline.step_time;
    }
  }
}

TEST_CASE("a step that is updated at its own temperatures stays what it is") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    StepModel model(random_training_job(seed));
    const std::vector<Celsius> dies(model.num_devices(), Celsius(55));
    const CoupledStep first = step_at(model, dies);
    CoupledStep again = first;
    update_step(model, dies, first.clocks.heat_ceiling, again);
    CHECK(again.rounds == first.rounds);
    CHECK(again.timeline.step_time == first.timeline.step_time);
    for (size_t d = 0; d < dies.size(); ++d)
      CHECK(again.accounted.devices[d].mean_power == first.accounted.devices[d].mean_power);
  }
}

}  // namespace

// Ladders: what is made a little worse at a time never makes a job faster, up to what one board's
// clock step between two others can do; and time leads where the steady state is.

namespace {

// Boards that go down a clock step let others wait and cool, so that one of those may keep a step
// which it would have lost: less than this of a step's time.
constexpr double one_clock_step_of_one_board = 5e-4;

/// One node, a group of lockstep ranks on all of it.
spec::Job job_on(const std::string& cluster) {
  const auto known = spec::load_cluster(spec::default_library(), cluster);
  REQUIRE(known.has_value());
  return spec::job_of_text(fmt::format(R"(
model = "llama3-8b"
cluster = "{}"
nodes = 1
[plan]
tensor_parallel_size = {}
global_batch_size = 64
micro_batch_size = 4
recompute = "full"
)",
                                       cluster, std::min<int64_t>(8, known->gpus_per_node)));
}

/// One cluster for each GPU type whose power, heat and clocks are known.
const std::vector<std::string>& clusters() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names, seen;
    for (const std::string& name : spec::list_clusters(spec::default_library())) {
      const auto cluster = spec::load_cluster(spec::default_library(), name);
      REQUIRE(cluster.has_value());
      const spec::Gpu& gpu = cluster->gpu;
      if (!gpu.power || !gpu.thermal || !gpu.governor || !gpu.peak_bf16) continue;
      if (std::ranges::find(seen, gpu.name) != seen.end()) continue;
      seen.push_back(gpu.name);
      names.push_back(name);
    }
    return names;
  }();
  return all;
}

struct Outcome {
  double step = 0, hottest = 0;
  bool runs = true;
};

Outcome outcome_of(const run::Run& run, double from = 0) {
  Outcome outcome;
  outcome.runs = run::has_trained(run) && !run.shutdown;
  if (!outcome.runs) return outcome;
  double count = 0;
  for (const run::StepRecord& step : run.steps) {
    if (step.begin < instant_at(from * unit::s)) continue;
    outcome.step += (step.end - step.begin) / unit::s;
    ++count;
  }
  outcome.step /= count;
  for (const run::DeviceSummary& device : run.summaries)
    outcome.hottest = std::max(outcome.hottest, *device.die_mean_c);
  return outcome;
}

Outcome steady(const spec::Job& job) {
  return outcome_of(simulate(job, {.timeline = false}));
}

spec::Fault fault(const std::string& text) {
  const auto parsed = spec::parse_fault(text);
  REQUIRE(parsed.has_value());
  return *parsed;
}

using Worsen = std::function<void(spec::Job&, double rung)>;

/// Each rung is worse than the one before.
void check_ladder(const std::vector<double>& rungs, const Worsen& worsen, bool hotter) {
  for (const std::string& cluster : clusters()) {
    Outcome before;
    for (const double rung : rungs) {
      spec::Job job = job_on(cluster);
      worsen(job, rung);
      const Outcome now = steady(job);
      INFO(cluster, " at ", rung, ": ", now.step, " s, ", now.hottest, " C; before ", before.step,
           " s, ", before.hottest, " C");
      if (!before.runs) CHECK(!now.runs);
      if (now.runs) {
        CHECK(now.step >= (1 - one_clock_step_of_one_board) * before.step);
        if (!hotter && before.hottest > 0) CHECK(now.hottest <= before.hottest + 0.05);
      }
      before = now;
    }
  }
}

TEST_CASE("a warmer inlet never makes a job faster, on any GPU") {
  check_ladder(
      {20, 25, 30, 35, 40, 44, 46, 48, 50, 52, 54, 57, 60},
      [](spec::Job& job, double degrees) { job.environment.ambient = Celsius(degrees); }, true);
}

/// Fans that follow the hottest device would cool all others for it.
void set_full_fans(spec::Job& job) {
  job.cluster.chassis.fan_floor = 1;
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->fan_floor = 1;
}

/// A device that draws less leaves cooler air to those behind it: where heat holds these, a lower
/// limit makes the job faster. Here every slot has its own air.
void set_own_air(spec::Job& job) {
  for (spec::Slot& slot : job.cluster.chassis.slots)
    slot.upstream_heating.clear();
  if (job.cluster.liquid_chassis)
    for (spec::Slot& slot : job.cluster.liquid_chassis->slots)
      slot.upstream_heating.clear();
}

TEST_CASE("without leakage a hotter room makes dies hotter by the same amount and nothing else") {
  spec::Job cool = job_on("hgx-h200");
  set_full_fans(cool);
  cool.cluster.gpu.power->leakage = Watts();
  cool.environment.ambient = Celsius(25);
  spec::Job warm = cool;
  warm.environment.ambient = Celsius(33);
  const run::Run a = simulate(cool, {.timeline = false}), b = simulate(warm, {.timeline = false});
  for (size_t d = 0; d < a.summaries.size(); ++d) {
    CHECK(*b.summaries[d].die_mean_c - *a.summaries[d].die_mean_c == Approx(8));
    CHECK(*b.summaries[d].power_mean_w == Approx(*a.summaries[d].power_mean_w));
  }
}

TEST_CASE("a leaky or hungry board is slower at the same limit, not more expensive") {
  spec::Job job = job_on("hgx-h200");
  job.environment.power_limit = 0.7 * *job.cluster.gpu.tdp;
  job.cluster.gpu.variability = {};
  const auto solved = [&](const power::BoardFactors& third) {
    StepModel model(job);
    model.hardware.boards[2] = third;
    ClusterHeat heat(model.job, model.hardware);
    heat.set_conditions(model.conditions());
    return solve_steady_state(model, heat);
  };
  const CoupledStep typical = solved({}), odd = solved({.dynamic_energy = 1.05, .leakage = 1.5});
  CHECK(odd.timeline.step_time > typical.timeline.step_time);
  CHECK(mean_powers(odd.accounted.devices)[2] <= job.power_limit());
}

TEST_CASE("a worse heat path of one GPU never makes a job faster") {
  check_ladder(
      {1, 1.5, 1.9, 2, 2.5, 3, 4, 5, 6},
      [](spec::Job& job, double share) {
        set_full_fans(job);
        job.environment.faults = {fault(fmt::format("gpu=1,heat_path={}", share))};
      },
      true);
}

TEST_CASE("less air never makes a job faster") {
  check_ladder(
      {1, 0.8, 0.6, 0.5, 0.4, 0.36, 0.34, 0.32, 0.3, 0.25, 0.2},
      [](spec::Job& job, double share) {
        job.environment.faults = {fault(fmt::format("fan={}", share))};
      },
      true);
}

TEST_CASE("a lower power limit never makes a job faster nor hotter, in any room") {
  for (const double inlet : {25.0, 45.0})
    check_ladder(
        {1, 0.9, 0.8, 0.7, 0.6, 0.5},
        [inlet](spec::Job& job, double share) {
          set_own_air(job);
          job.environment.ambient = Celsius(inlet);
          job.environment.power_limit = share * *job.cluster.gpu.tdp;
        },
        false);
}

TEST_CASE("a smaller design power never makes a job faster nor hotter") {
  for (const double inlet : {25.0, 45.0})
    check_ladder(
        {1.2, 1.1, 1, 0.9, 0.8},
        [inlet](spec::Job& job, double share) {
          set_own_air(job);
          job.environment.ambient = Celsius(inlet);
          job.cluster.gpu.tdp = share * *job.cluster.gpu.tdp;
        },
        false);
}

TEST_CASE("where heat holds the clock, the die is at its target") {
  for (const double degrees : {48.0, 52.0, 56.0}) {
    spec::Job job = job_on("hgx-h200");
    job.environment.ambient = Celsius(degrees);
    const run::Run run = simulate(job, {.timeline = false});
    int held = 0;
    for (const run::DeviceSummary& device : run.summaries) {
      CHECK(*device.die_mean_c < 87.1);
      if (device.throttle.at("software_thermal") == 0) continue;
      CHECK(*device.die_mean_c == Approx(87).epsilon(0.001));
      ++held;
    }
    CHECK(held > 0);
  }
}

TEST_CASE("a device past its shutdown temperature ends the job, and the run says which and when") {
  spec::Job job = job_on("hgx-h200");
  job.environment.faults = {fault("gpu=3,heat_path=30")};
  const run::Run at_rest = simulate(job, {});
  const auto shutdown = at_rest.shutdown;
  REQUIRE(shutdown.has_value());
  CHECK(shutdown->device == 3);
  CHECK(shutdown->die_c > 92);
  CHECK(!shutdown->time);
  CHECK(!run::has_trained(at_rest));
  const run::Run timed = simulate(job, {.duration = 3600 * unit::s});
  REQUIRE(timed.shutdown.has_value());
  const Seconds died = *timed.shutdown->time;
  CHECK(died > 10 * unit::s);
  CHECK(timed.steps.back().end <= instant_at(died));
  // No step at rest describes it; peaks are those of all of it.
  CHECK(!timed.summaries[3].power_mean_w);
  CHECK(*timed.summaries[3].die_peak_c == doctest::Approx(timed.shutdown->die_c).epsilon(1e-4));
  CHECK(run::find_series(timed, "power_w", 3)->values.back() == 0);
}

TEST_CASE("time leads to the steady state: step within 0.5 %, dies within 0.5 K") {
  struct Case {
    double inlet, fan;
  };
  for (const std::string& cluster : clusters())
    for (const Case& at : {Case{20, 1}, Case{35, 0.5}, Case{45, 1}, Case{50, 0.6}, Case{60, 1}}) {
      spec::Job job = job_on(cluster);
      job.environment.ambient = Celsius(at.inlet);
      if (at.fan < 1) job.environment.faults = {fault(fmt::format("fan={}", at.fan))};
      const Outcome rest = steady(job);
      constexpr double end = 4000, from = 3600;
      const Outcome timed =
          outcome_of(simulate(job, {.duration = end * unit::s, .timeline = false}), from);
      INFO(cluster, " inlet ", at.inlet, " fan ", at.fan, ": ", rest.step, " s ", rest.hottest,
           " C, in time ", timed.step, " s ", timed.hottest, " C");
      CHECK(rest.runs == timed.runs);
      if (!rest.runs || !timed.runs) continue;
      CHECK(timed.step == Approx(rest.step).epsilon(0.005));
      CHECK(std::abs(timed.hottest - rest.hottest) < 0.5);
    }
}

}  // namespace

}  // namespace triplepoint::sim
