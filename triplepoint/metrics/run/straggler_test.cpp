// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

constexpr int32_t gpus = 16;

/// A recording of 16 GPUs whose clocks differ by a per cent or so.
run::Run recorded(uint64_t seed) {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  run.steps = {{.begin = Instant(0), .end = instant_at(2 * unit::s), .samples = 8, .tokens = 4096}};
  for (int32_t d = 0; d < gpus; ++d) {
    run.devices.push_back(
        {.index = d, .node = d / 8, .local = d % 8, .slot = d % 8, .name = "GPU"});
    const double noise =
        static_cast<double>(random_bits({seed, 1}, static_cast<uint64_t>(d)) % 1001) / 1000 - 0.5;
    run.summaries.push_back({.power_mean_w = 600,
                             .die_mean_c = 60 + 10 * noise,
                             .sm_clock_mean_mhz = 1800 * (1 + 0.03 * noise),
                             .throttle = {{"software_power_cap", 0.5}}});
  }
  return run;
}

TEST_CASE("a recording names the GPU whose clock lies outside the others'") {
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    run::Run run = recorded(seed);
    const auto slow = static_cast<int32_t>(random_bits({seed, 2}, 0) % gpus);
    run::DeviceSummary& device = run.summaries[static_cast<size_t>(slow)];
    device.sm_clock_mean_mhz = 1500;
    if (seed % 2 == 0) {
      device.die_mean_c = 88;
      device.throttle = {{"software_thermal", 0.4}};
    }
    const Metrics m = measure(run);
    if (m.pace_setters.size() != 1 || m.pace_setters[0].who != std::vector<int32_t>{slow}) continue;
    const run::PaceSetter& setter = m.pace_setters[0];
    CHECK(setter.limit == (seed % 2 == 0 ? "heat" : "power_limit"));
    CHECK(setter.at_most);
    CHECK(setter.cost / (2 * unit::s) == doctest::Approx(1 - 1500 / setter.peers));
    ++found;
  }
  CHECK(found >= 95);
}

TEST_CASE("a hot die of a recording is told, and called the limit only where heat throttles") {
  run::Run run = recorded(1);
  run.summaries[5].sm_clock_mean_mhz = 1500;
  run.summaries[5].die_mean_c = 61;
  const run::PaceSetter usual = measure(run).pace_setters.at(0);
  CHECK(usual.limit == "power_limit");
  CHECK(usual.detail.empty());
  run.summaries[5].die_mean_c = 80;
  const run::PaceSetter hot = measure(run).pace_setters.at(0);
  CHECK(hot.limit == "power_limit");
  CHECK(hot.detail.starts_with("die at 80 °C against "));
  run.summaries[5].throttle = {{"software_thermal", 0.6}, {"software_power_cap", 0.4}};
  CHECK(measure(run).pace_setters.at(0).limit == "heat");
}

TEST_CASE("a recording whose clocks scatter as healthy ones do names no GPU") {
  int fair = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    fair += measure(recorded(seed)).pace_setters.empty() ? 1 : 0;
  CHECK(fair >= 95);
  // Two populations are no culprit among healthy ones.
  run::Run halves = recorded(1);
  for (size_t d = 0; d < 8; ++d)
    halves.summaries[d].sm_clock_mean_mhz = 1200;
  CHECK(measure(halves).pace_setters.empty());
}

TEST_CASE("of a simulated run, those who cost less than a per cent of the step are not named") {
  run::Run run = recorded(1);
  run.manifest.origin = run::Origin::simulated;
  run.pace_setters = {{.who = {3}, .cost = 0.1 * unit::s}, {.who = {4}, .cost = 0.01 * unit::s}};
  const Metrics m = measure(run);
  REQUIRE(m.pace_setters.size() == 1);
  CHECK(m.pace_setters[0].who == std::vector<int32_t>{3});
}

}  // namespace
}  // namespace triplepoint::metrics
