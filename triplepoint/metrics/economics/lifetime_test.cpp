// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/lifetime.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

LifetimeModel model() {
  const Result<LifetimeModel> loaded = load_lifetime_model(spec::default_library());
  if (!loaded) FAIL(loaded.error().what);
  return *loaded;
}

DieStress reference(const LifetimeModel& model) {
  return {.die = model.reference_die, .power_share = model.reference_power_share};
}

TEST_CASE("a GPU at the reference wears by one, by every mechanism") {
  const LifetimeModel m = model();
  CHECK(electromigration_use(m, reference(m)) == Approx(1));
  CHECK(oxide_use(m, reference(m)) == Approx(1));
  const std::vector<ThermalCycle> daily = {{m.reference_cycle, 1}};
  CHECK(cycling_use(m, daily, 24 * unit::h / m.reference_cycles_per_day) == Approx(1));
}

TEST_CASE("heat, current and voltage wear faster, cold and low clocks slower") {
  const LifetimeModel m = model();
  DieStress hot = reference(m), cold = hot, hungry = hot, slow = hot;
  hot.die = hot.die + 10 * unit::K;
  cold.die = cold.die - 10 * unit::K;
  hungry.power_share *= 1.2;
  slow.voltage_ratio = 0.9;
  CHECK(electromigration_use(m, hot) > 1);
  CHECK(oxide_use(m, hot) > 1);
  CHECK(electromigration_use(m, cold) < 1);
  CHECK(oxide_use(m, cold) < 1);
  CHECK(electromigration_use(m, hungry) > 1);
  CHECK(oxide_use(m, slow) < 1);
}

TEST_CASE("electromigration follows Arrhenius: its slope over 1/T is the activation energy") {
  const LifetimeModel m = model();
  DieStress warm = reference(m);
  warm.die = Celsius(90);
  const double inverse = 1 / (m.reference_die.degrees() + 273.15) - 1 / (90 + 273.15);
  CHECK(std::log(electromigration_use(m, warm)) * 8.617333262e-5 / inverse ==
        Approx(m.electromigration_energy_ev));
}

/// The cycles of a given height.
double count_of(const std::vector<ThermalCycle>& cycles, double kelvins) {
  double count = 0;
  for (const ThermalCycle& cycle : cycles)
    if (std::abs(cycle.height / unit::K - kelvins) < 1e-9) count += cycle.count;
  return count;
}

TEST_CASE("rainflow counts what ASTM E1049 counts in its example") {
  const std::vector<double> peaks = {-2, 1, -3, 5, -1, 3, -4, 4, -2};
  const std::vector<ThermalCycle> cycles = rainflow(peaks);
  CHECK(count_of(cycles, 3) == 0.5);
  CHECK(count_of(cycles, 4) == 1.5);
  CHECK(count_of(cycles, 6) == 0.5);
  CHECK(count_of(cycles, 8) == 1);
  CHECK(count_of(cycles, 9) == 0.5);
}

TEST_CASE("the ripple of steps is elastic and does not wear") {
  const LifetimeModel m = model();
  std::vector<double> ripple;
  for (int i = 0; i < 1000; ++i)
    ripple.push_back(60 + 3 * (i % 2));
  CHECK(cycling_use(m, rainflow(ripple), 1 * unit::h) == 0);
}

run::Run run_of(const std::vector<double>& degrees) {
  run::Run run;
  run.manifest.job.emplace();
  spec::Gpu& gpu = run.manifest.job->cluster.gpu;
  gpu.tdp = 700 * unit::W;
  gpu.max_clock = 1980 * unit::MHz;
  gpu.power.emplace();
  gpu.power->energy_floor = 0.4;
  gpu.power->clock_exponent = 2;
  for (size_t i = 0; i < degrees.size(); ++i)
    run.devices.push_back({.index = static_cast<int32_t>(i)});
  return run;
}

Metrics readings(const std::vector<double>& degrees, double watts, double mhz) {
  Metrics metrics;
  metrics.temperature_per_gpu_c = degrees;
  metrics.power_per_gpu_w.assign(degrees.size(), watts);
  metrics.sm_clock_per_gpu_mhz.assign(degrees.size(), mhz);
  metrics.tokens_per_second = 1000;
  return metrics;
}

TEST_CASE("of equal GPUs the hottest wears fastest, and tokens cost GPU hours") {
  const std::vector<double> degrees = {60, 80, 70};
  const auto use = lifetime_use_of(run_of(degrees), readings(degrees, 600, 1980), model());
  REQUIRE(use);
  CHECK(use->worst_device == 1);
  CHECK(use->highest > use->mean);
  CHECK(use->lowest < use->mean);
  CHECK(*use->gpu_hours_per_million_tokens == Approx(use->mean * 3 * 1000 / 3600.));
  CHECK(lifetime_use_json(*use)["per_gpu"].size() == 3);
  RunLifetimeUse many = *use;
  many.devices.resize(most_listed_devices + 1);
  CHECK_FALSE(lifetime_use_json(many).contains("per_gpu"));
}

TEST_CASE("a lower clock at the same heat wears less: its voltage is lower") {
  const std::vector<double> degrees = {70};
  const auto fast = lifetime_use_of(run_of(degrees), readings(degrees, 500, 1980), model());
  const auto slow = lifetime_use_of(run_of(degrees), readings(degrees, 500, 1600), model());
  REQUIRE(fast);
  REQUIRE(slow);
  CHECK(slow->devices[0]->oxide < fast->devices[0]->oxide);
}

TEST_CASE("without readings there is no lifetime use") {
  CHECK(!lifetime_use_of(run_of({60}), Metrics{}, model()));
  run::Run unknown = run_of({60});
  unknown.manifest.job.reset();
  CHECK(!lifetime_use_of(unknown, readings({60}, 600, 1980), model()));
}

}  // namespace
}  // namespace triplepoint::metrics
