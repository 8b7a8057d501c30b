// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/steady_state.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/clock/governor.h"
#include "triplepoint/sim/job_testing.h"

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
}  // namespace triplepoint::sim
