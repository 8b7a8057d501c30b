// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/fault_effects.h"

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

constexpr int seconds = 30;

/// Two devices, a value a second; device 1 is slow and steps take twice as long from 10 s to 20 s.
run::Run made_run() {
  run::Run run;
  run.manifest.job.emplace();
  spec::Fault fault;
  fault.gpu = 1;
  fault.share = 0.5;
  fault.begin = 10 * unit::s;
  fault.end = 20 * unit::s;
  run.manifest.job->environment.faults.push_back(fault);
  for (int32_t d = 0; d < 2; ++d) {
    run.devices.emplace_back().index = d;
    for (const char* signal : {"power_w", "die_c", "sm_clock_mhz"})
      run.series.push_back({.signal = signal, .device = d, .of_node = false});
  }
  for (int t = 1; t <= seconds; ++t)
    for (run::Series& series : run.series) {
      const bool hit = series.device == 1 && t > 10 && t <= 20;
      series.times.push_back(instant_at(t * unit::s));
      double value = series.signal == "power_w" ? 600 : series.signal == "die_c" ? 60 : 1800;
      if (hit) value *= 0.5;
      series.values.push_back(value);
    }
  for (int t = 0; t < seconds; t += t >= 10 && t < 20 ? 2 : 1)
    run.steps.push_back({.begin = instant_at(t * unit::s),
                         .end = instant_at((t + (t >= 10 && t < 20 ? 2 : 1)) * unit::s)});
  return run;
}

TEST_CASE("a fault is told by what was before, during and after it") {
  const std::vector<FaultEffect> effects = fault_effects(made_run());
  REQUIRE(effects.size() == 1);
  const FaultEffect& effect = effects[0];
  REQUIRE((effect.before && effect.during && effect.after));
  CHECK(effect.before->steps == 10);
  CHECK(effect.during->steps == 5);
  CHECK(effect.after->steps == 10);
  CHECK(*effect.before->step_time / unit::s == Approx(1));
  CHECK(*effect.during->step_time / unit::s == Approx(2));
  CHECK(slowdown(effect).value() == Approx(1));
  CHECK(effect.before->power_w == Approx(600));
  CHECK(effect.during->power_w == Approx(450));
  CHECK(effect.during->slowest == 1);
  CHECK(effect.during->slowest_mhz == Approx(900));
  CHECK(effect.during->hottest == 0);
  CHECK(effect.waited_for == 1);
  CHECK(most_affected(effect, 1) == std::vector<int64_t>{1});
}

TEST_CASE("nodes have drawn in a phase what their counters count in it") {
  run::Run run = made_run();
  CHECK_FALSE(fault_effects(run)[0].during->node_energy_j);
  // What nodes draw along the last step says nothing of the phases before it.
  run.series.push_back({"node_power_w", 0, true, {instant_at(29 * unit::s)}, {3000}});
  CHECK_FALSE(fault_effects(run)[0].during->node_energy_j);
  run.series.push_back({"node_energy_j",
                        0,
                        true,
                        {instant_at(Seconds()), instant_at(15 * unit::s), instant_at(30 * unit::s)},
                        {0, 15e3, 45e3}});
  const std::vector<FaultEffect> effects = fault_effects(run);
  CHECK(effects[0].before->node_energy_j.value() == Approx(10e3));
  CHECK(effects[0].during->node_energy_j.value() == Approx(15e3));
}

TEST_CASE("a die is told as it is at the end of a time, not as the time before has left it") {
  run::Run run = made_run();
  for (run::Series& series : run.series)
    if (series.signal == "die_c" && series.device == 1)
      series.values[10] = 58, series.values[19] = 40;  // of the fault's first and last second
  const FaultEffect effect = fault_effects(run)[0];
  CHECK(effect.devices_during[1].die_c == Approx(40));
  CHECK(effect.devices_during[1].die_peak_c == Approx(58));
  CHECK(effect.during->hottest_c == Approx(60));  // the other die
  const Json gpu = fault_json("power", effect)["during"]["gpus"][1];
  CHECK(gpu["die_c"] == 40);
  CHECK(gpu["die_peak_c"] == 58);
}

TEST_CASE("no rank waits for a device whose clock costs no time") {
  run::Run run = made_run();
  run.steps.clear();
  for (int t = 0; t < seconds; ++t)
    run.steps.push_back({.begin = instant_at(t * unit::s), .end = instant_at((t + 1) * unit::s)});
  CHECK(!fault_effects(run)[0].waited_for);
}

TEST_CASE("no rank waits for the slowest device where a fault slows all of them") {
  run::Run run = made_run();
  for (run::Series& series : run.series)
    if (series.signal == "sm_clock_mhz")
      for (size_t t = 10; t < 20; ++t)
        series.values[t] = series.device == 1 ? 900 : 960;
  CHECK(slowdown(fault_effects(run)[0]).value() == Approx(1));
  CHECK(!fault_effects(run)[0].waited_for);
}

TEST_CASE("the whole run is no cooler than the peaks of its dies") {
  run::Run run = made_run();
  run.manifest.origin = run::Origin::simulated;
  CHECK(fault_phases_of(run).front().span.peak_c == 60);
  run.summaries.resize(2);
  run.summaries[1].die_peak_c = 62;
  CHECK(fault_phases_of(run).front().span.peak_c == 62);
}

TEST_CASE("what heat ends counts to the end, whatever its seconds round to") {
  run::Run run = made_run();
  run.manifest.origin = run::Origin::simulated;
  run.devices.resize(1);
  for (int last = 1; last < 1000; ++last) {
    const Instant end = instant_at(last * unit::s);
    run.series = {{"power_w", 0, false, {end}, {500.0}}, {"die_c", 0, false, {end}, {92.0}}};
    run.shutdown = {.time = last * unit::s};
    CHECK(fault_phases_of(run).front().span.peak_c == 92);
  }
}

TEST_CASE("a fault from the first second has no before, and one to the last no after") {
  run::Run run = made_run();
  run.manifest.job->environment.faults[0].begin = Seconds();
  run.manifest.job->environment.faults[0].end.reset();
  const FaultEffect effect = fault_effects(run)[0];
  CHECK(!effect.before);
  CHECK(!effect.after);
  CHECK(effect.during->steps == 25);
  CHECK(!slowdown(effect));
  CHECK(fault_json("power", effect)["before"].is_null());
}

TEST_CASE("a fault that begins behind the end has no effect, and no time before it") {
  run::Run run = made_run();
  run.manifest.job->environment.faults[0].begin = 40 * unit::s;
  run.manifest.job->environment.faults[0].end.reset();
  const FaultEffect effect = fault_effects(run)[0];
  CHECK(!effect.before);
  CHECK(!effect.during);
}

TEST_CASE("where a fault follows another at once, the time before is not the other's") {
  run::Run run = made_run();
  auto& faults = run.manifest.job->environment.faults;
  faults.push_back(faults[0]);
  faults[1].begin = 20 * unit::s, faults[1].end = 25 * unit::s;
  const std::vector<FaultEffect> effects = fault_effects(run);
  CHECK(effects[0].before->end == 10 * unit::s);
  CHECK(!effects[0].after);
  CHECK(!effects[1].before);
  CHECK(effects[1].after->begin == 25 * unit::s);
  CHECK(others_within(faults, faults[1], effects[1]).empty());
}

TEST_CASE("without power and heat a fault is told by its steps alone") {
  run::Run run = made_run();
  run.series.clear();
  const FaultEffect effect = fault_effects(run)[0];
  CHECK(slowdown(effect).value() == Approx(1));
  CHECK(effect.devices_during.empty());
  CHECK(!effect.waited_for);
  for (const char* key : {"power_w", "temperature_peak_c", "slowest_gpu", "energy_j"})
    CHECK(fault_json("host", effect)["during"][key].is_null());
}

TEST_CASE("a steady state is held against the one without faults") {
  run::Run fault_free, faulty;
  for (run::Run* run : {&fault_free, &faulty})
    for (int d = 0; d < 4; ++d) {
      run::DeviceSummary summary;
      summary.power_mean_w = 500;
      summary.die_peak_c = 70 + d;
      summary.sm_clock_mean_mhz = run == &faulty && d == 2 ? 900 : 1800;
      run->summaries.push_back(summary);
    }
  fault_free.steps.push_back({.end = instant_at(2 * unit::s)});
  faulty.steps.push_back({.end = instant_at(3 * unit::s)});
  const FaultEffect effect = steady_effect(fault_free, faulty);
  CHECK(slowdown(effect).value() == Approx(0.5));
  CHECK(effect.waited_for == 2);
  CHECK(effect.during->hottest == 3);
  CHECK(!effect.after);
}

}  // namespace
}  // namespace triplepoint::metrics
