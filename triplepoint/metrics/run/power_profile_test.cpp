// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/power_profile.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

constexpr Seconds bin = 0.01 * unit::s;
constexpr int bins_per_step = 100;

/// Nodes that draw `high` in the first half of each step and `low` in the second; `late`: bins by
/// which each next node is behind.
run::Run square_run(int nodes, double high, double low, int late, int steps = 1) {
  run::Run run;
  for (int node = 0; node < nodes; ++node) {
    run.devices.push_back({.index = node, .node = node});
    run::Series series{.signal = "node_power_w", .device = node, .of_node = true};
    for (int b = 0; b < steps * bins_per_step; ++b) {
      const int phase = (b + bins_per_step - (late * node) % bins_per_step) % bins_per_step;
      series.times.push_back(Instant() + as_real(b) * bin);
      series.values.push_back(phase < bins_per_step / 2 ? high : low);
    }
    run.series.push_back(std::move(series));
  }
  for (int step = 0; step < steps; ++step)
    run.steps.push_back({Instant() + as_real(step) * bins_per_step * bin,
                         Instant() + as_real(step + 1) * bins_per_step * bin});
  return run;
}

TEST_CASE("nodes that rise and fall together peak together, and their swings add") {
  const auto profile = power_profile(square_run(8, 10e3, 6e3, 0), {.nodes_per_rack = 4});
  REQUIRE(profile);
  REQUIRE(profile->levels.size() == 3);
  CHECK(profile->levels[0].swing() / unit::W == Approx(4e3));
  CHECK(profile->levels[1].swing() / unit::W == Approx(16e3));
  CHECK(profile->levels[2].swing() / unit::W == Approx(32e3));
  CHECK(profile->levels[1].units == 2);
  for (const PowerLevel& level : profile->levels)
    CHECK(level.coincidence == Approx(1));
}

TEST_CASE("two nodes in opposition cancel on the site and do not coincide") {
  const auto profile = power_profile(square_run(2, 10e3, 6e3, bins_per_step / 2));
  REQUIRE(profile);
  CHECK(profile->levels[2].swing() / unit::W == Approx(0).epsilon(1e-9));
  CHECK(profile->levels[0].coincidence == Approx(0.8));
  CHECK(profile->smoothing.storage / unit::J == Approx(0).epsilon(1e-9));
}

TEST_CASE("a battery that flattens a square wave holds half its swing over half its period") {
  const auto profile = power_profile(square_run(1, 10e3, 6e3, 0));
  REQUIRE(profile);
  const double half_step = 0.5 * bins_per_step * (bin / unit::s);
  CHECK(profile->smoothing.storage / unit::J == Approx(2e3 * half_step));
  CHECK(profile->smoothing.storage_power / unit::W == Approx(2e3));
}

TEST_CASE("a power floor burns what is missing to it, per step of a recording of many") {
  for (const int steps : {1, 5}) {
    const auto profile = power_profile(square_run(1, 10e3, 6e3, 0, steps), {.allowed_swing = 0.1});
    REQUIRE(profile);
    const double half_step = 0.5 * bins_per_step * (bin / unit::s);
    CHECK(profile->smoothing.floor / unit::W == Approx(9e3));
    CHECK(profile->smoothing.floor_energy / unit::J == Approx(3e3 * half_step));
    CHECK(profile->smoothing.floor_share == Approx(3. / 16));
  }
}

TEST_CASE("staggering many nodes over a step takes most of the swing, and not more than a step") {
  const auto profile = power_profile(square_run(16, 10e3, 6e3, 0), {.allowed_swing = 0.02});
  REQUIRE(profile);
  CHECK(profile->smoothing.staggered_swing < 0.2 * profile->levels[2].swing());
  CHECK(profile->smoothing.stagger <= profile->step);
}

TEST_CASE("a ramp is the change over its window") {
  const auto profile =
      power_profile(square_run(1, 10e3, 6e3, 0, 2), {.ramp_window = 0.1 * unit::s});
  REQUIRE(profile);
  CHECK(profile->levels[0].ramp_up_w_per_s == Approx(40e3));
  CHECK(profile->levels[0].ramp_down_w_per_s == Approx(40e3));
}

TEST_CASE("without a meter at the node its GPUs count, over the supplies' efficiency") {
  run::Run run = square_run(2, 1000, 600, 0);
  for (run::Series& series : run.series) {
    series.signal = "power_w";
    series.of_node = false;
  }
  run.manifest.job.emplace();
  run.manifest.job->cluster.host.conversion_efficiency = 0.8;
  const auto profile = power_profile(run);
  REQUIRE(profile);
  CHECK(profile->of_devices_only);
  CHECK(profile->levels[0].highest / unit::W == Approx(1250));
  CHECK(power_profile_json(*profile)["scope"] == "devices");
}

TEST_CASE("a run without power over time has no profile") {
  CHECK(!power_profile(run::Run{}));
  run::Run run = square_run(2, 1000, 600, 0);
  run.series.pop_back();
  CHECK(!power_profile(run));
}

}  // namespace
}  // namespace triplepoint::metrics
