// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/energy_account.h"

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

/// A step of a random job with its energy, every die at another temperature.
struct Accounted {
  explicit Accounted(uint64_t seed) : model(random_training_job(seed)) {
    for (size_t d = 0; d < model.num_devices(); ++d)
      dies.emplace_back(40 + 3.0 * as_real((d * 7 + seed) % 11));
    clocks = choose_clocks(model, dies);
    step = simulate_step(model, clocks);
    accounted = account_step(model, clocks, step);
    set_dies(model, dies, accounted.devices);
  }

  StepModel model;
  std::vector<Celsius> dies;
  ClockState clocks;
  StepTimeline step;
  AccountedStep accounted;
};

double joules(const power::EnergyLedger& ledger) {
  return ledger.total() / unit::J;
}

TEST_CASE("a device's energy is its mean power times the step, and the sum of its parts") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Accounted job(seed);
    for (const DeviceStep& device : job.accounted.devices) {
      CHECK(device.duration == job.step.step_time);
      CHECK(device.mean_power * device.duration / unit::J == Approx(joules(device.ledger)));
      const power::EnergyLedger& parts = device.ledger;
      CHECK(joules(parts) == Approx((parts.idle + parts.leakage + parts.compute + parts.memory +
                                     parts.communication + parts.waiting) /
                                    unit::J));
      CHECK(parts.compute > Joules());
      CHECK(device.in_phases <= device.duration * (1 + 1e-12));
      CHECK(device.mean_clock_ratio <= 1 + 1e-12);
    }
  }
}

TEST_CASE("a group's phases, exchanges, waits and epilogue fill the step") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Accounted job(seed);
    for (size_t p = 0; p < job.model.pipelines.size(); ++p)
      for (const LockstepGroup& group : job.model.pipelines[p].groups) {
        const auto s = as_size(group.stage);
        const StepEpilogue& end = job.step.epilogues[p][s];
        const Seconds epilogue = (end.sync_end - end.sync_begin) + (end.end - end.norm_begin);
        const GroupStep& step = job.accounted.groups[p][s];
        const Seconds start = job.model.job.stack.step_overhead;
        CHECK((start + step.in_phases + step.outside.waiting + epilogue) / job.step.step_time ==
              Approx(1).epsilon(1e-9));
      }
  }
}

TEST_CASE("another temperature changes leakage and nothing else") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Accounted job(seed);
    const std::vector<DeviceStep> before = job.accounted.devices;
    std::vector<Celsius> hotter = job.dies;
    for (Celsius& die : hotter)
      die = die + 10 * unit::K;
    set_dies(job.model, hotter, job.accounted.devices);
    for (size_t d = 0; d < before.size(); ++d) {
      const power::EnergyLedger &cold = before[d].ledger, &hot = job.accounted.devices[d].ledger;
      CHECK(hot.leakage > cold.leakage);
      CHECK(joules(hot) - joules(cold) == Approx((hot.leakage - cold.leakage) / unit::J));
      CHECK(hot.compute == cold.compute);
    }
    set_dies(job.model, job.dies, job.accounted.devices);
    for (size_t d = 0; d < before.size(); ++d)
      CHECK(job.accounted.devices[d].mean_power == before[d].mean_power);
  }
}

TEST_CASE("a longer step costs what waiting draws, and lowers mean power") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Accounted job(seed);
    const std::vector<DeviceStep> before = job.accounted.devices;
    const std::vector<char> no_pipeline(job.model.pipelines.size(), 0);
    const std::vector<char> no_device(job.model.num_devices(), 0);
    const Seconds extra = 0.2 * job.step.step_time;
    update_account(job.model, job.clocks, job.step, {no_pipeline, no_device},
                   job.step.step_time + extra, job.accounted);
    set_dies(job.model, job.dies, job.accounted.devices);
    for (size_t d = 0; d < before.size(); ++d) {
      const DeviceStep& longer = job.accounted.devices[d];
      CHECK(joules(longer.ledger) > joules(before[d].ledger));
      CHECK(longer.ledger.compute == before[d].ledger.compute);
      CHECK(longer.mean_power < before[d].mean_power);
    }
    update_account(job.model, job.clocks, job.step, {no_pipeline, no_device}, job.step.step_time,
                   job.accounted);
    set_dies(job.model, job.dies, job.accounted.devices);
    for (size_t d = 0; d < before.size(); ++d)
      CHECK(job.accounted.devices[d].mean_power == before[d].mean_power);
  }
}

TEST_CASE("a device held lower by heat draws less, the lower the less") {
  Accounted job(3);
  Watts last;
  for (double steps = 0; steps < job.model.most_steps_down(); steps += 10) {
    const Watts power = power_under_ceiling(
        job.model, job.clocks, job.step, job.accounted,
        {.device = 5, .heat_ceiling = steps, .length = job.step.step_time, .die = job.dies[5]});
    if (steps > 0) CHECK(power <= last * (1 + 1e-9));
    last = power;
  }
}

}  // namespace
}  // namespace triplepoint::sim
