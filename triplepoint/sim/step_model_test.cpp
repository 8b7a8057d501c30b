// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_model.h"

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"
#include "triplepoint/sim/step_at_clocks.h"

namespace triplepoint::sim {
namespace {

std::vector<Celsius> dies_at(const StepModel& model, double degrees) {
  return std::vector<Celsius>(model.num_devices(), Celsius(degrees));
}

TEST_CASE("a stage's phases are its program, and every device stands in one lockstep group") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const StepModel model(random_training_job(seed));
    for (size_t stage = 0; stage < model.uses.size(); ++stage) {
      int64_t actions = sum_of(model.uses[stage], &PhaseUse::count);
      CHECK(actions == static_cast<int64_t>(model.graph.programs[stage].size()));
    }
    std::vector<int> seen(model.num_devices());
    for (const Pipeline& pipeline : model.pipelines)
      for (const LockstepGroup& group : pipeline.groups)
        for (const int64_t device : group.devices) {
          ++seen[as_size(device)];
          CHECK(&model.group_of(as_size(device)) == &group);
        }
    CHECK(std::ranges::count(seen, 1) == static_cast<std::ptrdiff_t>(seen.size()));
  }
}

TEST_CASE("links that lose bandwidth and get it back leave the same step, to the bit") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    StepModel model(random_training_job(seed));
    const Conditions before = model.conditions();
    CHECK_FALSE(model.set_conditions(before));
    const auto step_time = [&] {
      return simulate_step(model, choose_clocks(model, dies_at(model, 50))).step_time;
    };
    const Seconds whole = step_time();
    Conditions slow = before;
    std::ranges::fill(slow.scale_up_share, 0.25);
    std::ranges::fill(slow.scale_out_share, 0.25);
    CHECK(model.set_conditions(slow));
    CHECK(step_time() > whole);
    CHECK(model.set_conditions(before));
    CHECK(step_time() == whole);
  }
}

TEST_CASE("a phase has the highest clock that meets the power limit") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    StepModel model(random_training_job(seed));
    Conditions tight = model.conditions();
    for (Watts& limit : tight.power_limit)
      limit *= 0.75;
    model.set_conditions(tight);
    const std::vector<Celsius> dies = dies_at(model, 60);
    const ClockState state = choose_clocks(model, dies);
    const double share = model.job.cluster.gpu.governor->regulation_share;
    const auto lowest = static_cast<int64_t>(model.most_steps_down());
    int capped = 0;
    for (size_t d = 0; d < state.devices.size(); ++d)
      for (const DevicePhase& phase : state.devices[d]) {
        if (phase.clock_index < lowest) CHECK(phase.power <= share * tight.power_limit[d]);
        if (phase.clock_index > 0) {
          ++capped;
          // One step up would meet the cap only on a colder die.
          CHECK(phase.reason == clock::ClockEventReason::software_power_cap);
          CHECK(phase.coldest <= dies[d]);
        }
        CHECK(phase.hottest >= dies[d]);
      }
    CHECK(capped > 0);
  }
}

TEST_CASE("a hotter die never has a higher clock, and a clock is kept while its die stays") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    StepModel model(random_training_job(seed));
    Conditions tight = model.conditions();
    for (Watts& limit : tight.power_limit)
      limit *= 0.7;
    model.set_conditions(tight);
    ClockState cold = choose_clocks(model, dies_at(model, 40));
    const ClockState hot = choose_clocks(model, dies_at(model, 80));
    for (size_t d = 0; d < cold.devices.size(); ++d)
      for (size_t u = 0; u < cold.devices[d].size(); ++u)
        CHECK(hot.devices[d][u].clock_index >= cold.devices[d][u].clock_index);
    const std::vector<double> no_ceiling(model.num_devices(), 0.0);
    const auto changed =
        update_clocks(model, dies_at(model, 40), no_ceiling, Hysteresis::none, cold);
    CHECK(std::ranges::count(changed, 1) == 0);
    update_clocks(model, dies_at(model, 80), no_ceiling, Hysteresis::none, cold);
    for (size_t d = 0; d < cold.devices.size(); ++d)
      for (size_t u = 0; u < cold.devices[d].size(); ++u)
        CHECK(cold.devices[d][u].clock_index == hot.devices[d][u].clock_index);
  }
}

TEST_CASE("a schedule updated for clocks that changed is the schedule made for them, to the bit") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    StepModel model(random_training_job(seed));
    const ClockState first = choose_clocks(model, dies_at(model, 50));
    StepTimeline step = simulate_step(model, first);
    CHECK(std::ranges::count(update_schedule(model, first, step), 1) == 0);
    ClockState other = first;
    std::vector<double> ceiling(model.num_devices(), 0.0);
    ceiling[seed % ceiling.size()] = 40.5;  // one device, between two clocks
    update_clocks(model, dies_at(model, 50), ceiling, Hysteresis::none, other);
    CHECK(std::ranges::count(update_schedule(model, other, step), 1) >= 1);
    const StepTimeline whole = simulate_step(model, other);
    CHECK(step.step_time == whole.step_time);
    CHECK(step.phase_durations == whole.phase_durations);
    CHECK(step.step_time > simulate_step(model, first).step_time);
  }
}

}  // namespace
}  // namespace triplepoint::sim
