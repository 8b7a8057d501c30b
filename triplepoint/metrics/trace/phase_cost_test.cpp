// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/phase_cost.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

constexpr int64_t ms = 1'000'000;

struct Level {
  const char* label;
  double watts;
};
constexpr Level levels[] = {{"compute", 620}, {"communication", 310}, {"idle", 95}};

/// Steps of gemm, all-reduce, norm and a gap, with known lengths; length 12.9 ms keeps the sampling
/// at 100 ms from locking onto the steps.
struct Signal {
  run::Timeline timeline;
  std::vector<TimeInterval> phases;  // all, in order of time
  std::vector<double> watts;         // of each

  explicit Signal(int64_t steps, int64_t scale = 1) {
    add_types(timeline);
    timeline.num_ranks = 1;
    int64_t now = 5 * ms;
    const auto add_span = [&](int32_t type, int64_t length, double power) {
      if (type >= 0) timeline.spans.push_back({Instant(now), Instant(now + length), type});
      phases.push_back({now, now + length});
      watts.push_back(power);
      now += length;
    };
    for (int64_t i = 0; i < steps; ++i) {
      add_span(gemm, scale * 6'100'000, levels[0].watts);
      add_span(all_reduce, scale * 2'700'000, levels[1].watts);
      add_span(norm, scale * 3'000'000, levels[0].watts);
      add_span(-1, scale * 1'100'000, levels[2].watts);
    }
  }

  /// Energy from the first begin until a time.
  double energy_until(int64_t time) const {
    double energy = 0;
    for (size_t i = 0; i < phases.size(); ++i)
      energy +=
          watts[i] * 1e-9 *
          as_real(std::clamp<int64_t>(time - phases[i].begin, 0, phases[i].end - phases[i].begin));
    return energy;
  }
  double power_at(int64_t time) const {
    for (size_t i = 0; i < phases.size(); ++i)
      if (phases[i].begin <= time && time < phases[i].end) return watts[i];
    return 0;
  }
  int64_t end() const { return phases.back().end; }

  run::Run recorded(std::string_view signal, int64_t period, int64_t window) const {
    run::Run run;
    run.devices.push_back({.index = 3, .rank = 0});
    run::Series series{.signal = std::string(signal), .device = 3};
    for (int64_t t = period; t < end() + 2 * period; t += period) {
      double value = power_at(t);
      if (window > 0)
        value = (energy_until(t) - energy_until(t - window)) / (1e-9 * as_real(window));
      if (signal == "energy_j") value = energy_until(t);
      series.times.emplace_back(t);
      series.values.push_back(value);
    }
    run.series.push_back(series);
    return run;
  }
};

const PhaseCost& find(const std::vector<PhaseCost>& costs, std::string_view label) {
  return *std::ranges::find(costs, label, &PhaseCost::label);
}

TEST_CASE("phases by activity and by label fill the time from first begin to last end") {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const run::Timeline timeline = random_trace(seed);
    for (const std::vector<Phase>& phases :
         {phases_of(timeline, PhasesBy::activity), phases_of(timeline, PhasesBy::label),
          phases_by_owner(timeline, std::vector<std::string>(timeline.spans.size(), "kernel"))}) {
      std::vector<TimeInterval> all;
      for (const Phase& phase : phases)
        if (phase.rank == 0) all.insert(all.end(), phase.intervals.begin(), phase.intervals.end());
      std::ranges::sort(all, [](auto& a, auto& b) { return a.begin < b.begin; });
      for (size_t i = 1; i < all.size(); ++i)
        CHECK(all[i].begin == all[i - 1].end);
    }
  }
}

TEST_CASE("what is hidden behind compute counts no time") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  timeline.spans = {{Instant(0), Instant(10), all_reduce},
                    {Instant(4), Instant(6), gemm},
                    {Instant(5), Instant(8), norm},
                    {Instant(12), Instant(14), all_reduce}};
  const auto phases = phases_by_owner(timeline, {"first", "gemm", "norm", "last"});
  const auto time = [&](std::string_view label) {
    return std::ranges::find(phases, label, &Phase::label)->time();
  };
  CHECK(time("first") == 6);
  CHECK(time("gemm") == 2);  // it began earlier
  CHECK(time("norm") == 2);
  CHECK(time("idle") == 2);
  CHECK(time("last") == 2);
}

TEST_CASE("folding finds the power of phases far shorter than the sensor's period") {
  const Signal signal(2000);
  const auto phases = phases_of(signal.timeline, PhasesBy::activity);
  for (const auto& reading :
       {std::pair("power_w", 100 * ms), std::pair("power_instant_w", int64_t{0}),
        std::pair("power_average_w", 1000 * ms)}) {
    CAPTURE(reading.first);
    const auto costs =
        cost_of_phases(phases, signal.recorded(reading.first, 100 * ms, reading.second));
    for (const Level& level : levels) {
      const PhaseCost& cost = find(costs, level.label);
      CAPTURE(level.label);
      CHECK(cost.method == "folded");
      CHECK(cost.occurrences >= 1999);
      REQUIRE(cost.power_mean_w);
      CHECK(*cost.power_mean_w == doctest::Approx(level.watts).epsilon(0.01));
      CHECK(*cost.energy_j ==
            doctest::Approx(level.watts * 1e-9 * as_real(cost.time)).epsilon(0.01));
    }
  }
}

TEST_CASE("an instant reading that is a mean over a short window is found to be one") {
  const Signal signal(2000);
  const auto phases = phases_of(signal.timeline, PhasesBy::activity);
  const auto costs = cost_of_phases(phases, signal.recorded("power_instant_w", 100 * ms, 25 * ms));
  for (const Level& level : levels) {
    CAPTURE(level.label);
    CHECK(*find(costs, level.label).power_mean_w == doctest::Approx(level.watts).epsilon(0.01));
  }
}

TEST_CASE("noise widens the folded uncertainty, and the truth stays within four deviations") {
  const Signal signal(3000);
  run::Run run = signal.recorded("power_w", 100 * ms, 100 * ms);
  for (size_t i = 0; i < run.series[0].values.size(); ++i)
    run.series[0].values[i] += 15 * random_normal({.seed = 5}, i);
  const auto costs = cost_of_phases(phases_of(signal.timeline, PhasesBy::activity), run);
  for (const Level& level : levels) {
    const PhaseCost& cost = find(costs, level.label);
    REQUIRE(cost.power_uncertainty_w);
    CHECK(*cost.power_uncertainty_w > 1);
    CHECK(std::abs(*cost.power_mean_w - level.watts) < 4 * *cost.power_uncertainty_w);
  }
}

TEST_CASE("long phases are integrated, and the error stays within what is stated") {
  const Signal signal(5, 1500);  // phases of 1.7 to 9 s
  const auto phases = phases_of(signal.timeline, PhasesBy::activity);
  const auto costs = cost_of_phases(phases, signal.recorded("power_w", 100 * ms, 100 * ms));
  double sum = 0;
  for (const Level& level : levels) {
    const PhaseCost& cost = find(costs, level.label);
    CAPTURE(level.label);
    CHECK(cost.method == "integrated");
    const double truth = level.watts * 1e-9 * as_real(cost.time);
    CHECK(std::abs(*cost.energy_j - truth) <= 1.1 * *cost.energy_uncertainty_j);
    CHECK(*cost.energy_uncertainty_j < 0.2 * truth);
    CHECK(*cost.power_peak_w == doctest::Approx(level.watts));
    sum += *cost.energy_j;
  }
  CHECK(sum == doctest::Approx(signal.energy_until(signal.phases.back().begin)).epsilon(1e-3));
}

TEST_CASE("a step of many counter updates is the counter's difference") {
  Signal signal(5, 300);
  const int32_t mark = signal.timeline.intern(
      {.name = "ProfilerStep#1", .kind = run::SpanKind::step, .stream = run::Stream::host});
  const TimeInterval step{signal.phases[4].begin, signal.phases[8].begin};
  signal.timeline.spans.push_back({Instant(step.begin), Instant(step.end), mark});
  run::sort(signal.timeline);
  const auto costs = cost_of_phases(phases_of(signal.timeline, PhasesBy::step),
                                    signal.recorded("energy_j", 20 * ms, 0));
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].method == "counter");
  const double truth = signal.energy_until(step.end) - signal.energy_until(step.begin);
  CHECK(std::abs(*costs[0].energy_j - truth) <= *costs[0].energy_uncertainty_j);
}

TEST_CASE("what was not measured is absent, with a reason") {
  const Signal signal(10);
  const auto phases = phases_of(signal.timeline, PhasesBy::activity);
  run::Run run;
  CHECK(cost_of_phases(phases, run).at(0).missing == "the run has no device of this rank");
  run.devices.push_back({.index = 3, .rank = 0});
  const PhaseCost no_power = cost_of_phases(phases, run).at(0);
  CHECK(!no_power.energy_j);
  CHECK(no_power.missing == "the run has no power of this device");
  run.series.push_back(
      {"power_w", 3, false, {Instant(900'000 * ms), Instant(900'001 * ms)}, {1, 1}});
  CHECK(cost_of_phases(phases, run).at(0).missing == "no power was sampled during it");
}

TEST_CASE("throttling that falls between the polls is read from residency counters") {
  const Signal signal(5, 300);
  run::Run run;
  run.devices.push_back({.index = 3, .rank = 0});
  run::Series bits{"throttle_reasons", 3}, counter{"throttle_ns_sw_power_cap", 3};
  for (int64_t t = 0; t < signal.end() + 200 * ms; t += 100 * ms) {
    bits.times.emplace_back(t), bits.values.push_back(0);
    counter.times.emplace_back(t), counter.values.push_back(0.3 * as_real(t));
  }
  const auto phases = phases_of(signal.timeline, PhasesBy::activity);
  CHECK(!find(cost_of_phases(phases, run), "compute").throttle_known);
  run.series = {bits, counter};
  const auto costs = cost_of_phases(phases, run);
  CHECK(find(costs, "compute").throttle_known);
  CHECK(find(costs, "compute").throttle.at("software_power_cap") == doctest::Approx(0.3));
}

TEST_CASE("temperature, clock and throttle residency are those of the phase's own time") {
  const Signal signal(5, 300);
  run::Run run;
  run.devices.push_back({.index = 3, .rank = 0});
  run::Series die{"die_c", 3}, bits{"throttle_reasons", 3};
  for (size_t i = 0; i < signal.phases.size(); ++i) {
    const bool computes = signal.watts[i] > 600;
    die.times.emplace_back(signal.phases[i].begin), die.values.push_back(computes ? 80 : 60);
    bits.times.emplace_back(signal.phases[i].begin), bits.values.push_back(computes ? 4 : 0);
  }
  run.series = {die, bits};
  const auto costs = cost_of_phases(phases_of(signal.timeline, PhasesBy::activity), run);
  CHECK(*find(costs, "compute").die_mean_c == doctest::Approx(80));
  CHECK(*find(costs, "communication").die_peak_c == doctest::Approx(60));
  CHECK(find(costs, "compute").throttle.at("software_power_cap") == doctest::Approx(1));
  CHECK(find(costs, "communication").throttle.empty());
}

}  // namespace
}  // namespace triplepoint::metrics
