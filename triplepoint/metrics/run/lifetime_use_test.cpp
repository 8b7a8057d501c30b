// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/lifetime_use.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;
using spec::LifetimeCoefficients;

const spec::Gpu& gpu() {
  static const spec::Gpu h100 = spec::load_gpu(spec::default_library(), "h100").value();
  return h100;
}

const LifetimeCoefficients& model() {
  return gpu().lifetime.value();
}

DieStress reference() {
  return {.die = model().reference_die, .power_share = model().reference_power_share};
}

TEST_CASE("a GPU at the reference wears by one") {
  CHECK(lifetime_use(model(), reference()) == Approx(1));
}

TEST_CASE("heat, current and voltage wear faster, cold and low clocks slower") {
  DieStress hot = reference(), cold = hot, hungry = hot, slow = hot;
  hot.die = hot.die + 10 * unit::K;
  cold.die = cold.die - 10 * unit::K;
  hungry.power_share *= 1.2;
  slow.voltage_ratio = 0.9;
  CHECK(lifetime_use(model(), hot) > 1);
  CHECK(lifetime_use(model(), cold) < 1);
  CHECK(lifetime_use(model(), hungry) > 1);
  CHECK(lifetime_use(model(), slow) < 1);
}

TEST_CASE("electromigration follows Arrhenius: its slope over 1/T is the activation energy") {
  DieStress warm = reference();
  warm.die = Celsius(90);
  DieStress warm_and_idle = warm;  // without current only the oxide wears
  warm_and_idle.power_share = 0;
  const double rate = 2 * (lifetime_use(model(), warm) - lifetime_use(model(), warm_and_idle));
  const double inverse = 1 / (model().reference_die.degrees() + 273.15) - 1 / (90 + 273.15);
  CHECK(std::log(rate) * 8.617333262e-5 / inverse == Approx(model().electromigration_energy_ev));
}

/// A run of GPUs at these temperatures.
run::Run run_of(const std::vector<double>& degrees, double watts, double mhz) {
  run::Run run;
  run.manifest.job.emplace();
  run.manifest.job->cluster.gpu = gpu();
  for (size_t i = 0; i < degrees.size(); ++i) {
    run.devices.push_back({.index = static_cast<int32_t>(i)});
    run.summaries.push_back(
        {.power_mean_w = watts, .die_mean_c = degrees[i], .sm_clock_mean_mhz = mhz});
  }
  return run;
}

TEST_CASE("of equal GPUs the hottest wears fastest") {
  const Metrics answer = measure(run_of({60, 80, 70}, 600, 1980));
  REQUIRE(answer.lifetime_use_per_gpu.size() == 3);
  CHECK(answer.lifetime_use_highest == answer.lifetime_use_per_gpu[1]);
  CHECK(answer.lifetime_use_per_gpu[0] < answer.lifetime_use_per_gpu[2]);
  CHECK(*answer.lifetime_use_mean < *answer.lifetime_use_highest);
}

TEST_CASE("a lower clock at the same heat wears less: its voltage is lower") {
  CHECK(*measure(run_of({70}, 500, 1600)).lifetime_use_mean <
        *measure(run_of({70}, 500, 1980)).lifetime_use_mean);
}

TEST_CASE("without a job there is no lifetime use") {
  run::Run unknown = run_of({60}, 600, 1980);
  unknown.manifest.job.reset();
  CHECK(!measure(unknown).lifetime_use_mean);
}

}  // namespace
}  // namespace triplepoint::metrics
