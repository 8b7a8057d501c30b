// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/random.h"
#include "triplepoint/base/text.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/bottleneck_text.h"

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
        as_real(random_bits({seed, 1}, static_cast<uint64_t>(d)) % 1001) / 1000 - 0.5;
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
    run::DeviceSummary& device = run.summaries[as_size(slow)];
    device.sm_clock_mean_mhz = 1500;
    if (seed % 2 == 0) {
      device.die_mean_c = 88;
      device.throttle = {{"software_thermal", 0.4}};
    }
    const Metrics m = measure(run);
    if (m.bottlenecks.size() != 1 || m.bottlenecks[0].who != std::vector<int32_t>{slow}) continue;
    const run::Bottleneck& one = m.bottlenecks[0];
    const run::Evidence& clock = one.evidence.front();
    CHECK(one.cause == (seed % 2 == 0 ? run::Cause::heat : run::Cause::power_cap));
    CHECK(one.at_most);
    CHECK(*one.cost / (2 * unit::s) == doctest::Approx(1 - 1500 / clock.peers));
    ++found;
  }
  CHECK(found >= 95);
}

TEST_CASE("a hot die of a recording is told, and called the cause only where heat throttles") {
  run::Run run = recorded(1);
  const auto sentence = [&] {
    const Metrics m = measure(run);
    REQUIRE(m.bottlenecks.size() == 1);
    return bottleneck_sentence(m.bottlenecks[0], m.step_time);
  };
  run.summaries[5].sm_clock_mean_mhz = 1500;
  run.summaries[5].die_mean_c = 61;
  CHECK(contains(sentence(), " MHz (power cap); the step takes at most "));
  run.summaries[5].die_mean_c = 80;
  CHECK(contains(sentence(), " (power cap, die at 80 °C against "));
  run.summaries[5].throttle = {{"software_thermal", 0.6}, {"software_power_cap", 0.4}};
  CHECK(contains(sentence(), " (heat, die at 80 °C against "));
}

TEST_CASE("a slow node is told by the GPU that sets its pace") {
  run::Run run = recorded(1);
  run.manifest.origin = run::Origin::simulated;
  run.bottlenecks = {{.of = run::Bottleneck::Of::node,
                      .who = {1},
                      .evidence = {{run::Evidence::Kind::clock, 546, 1800}},
                      .cost = 1 * unit::s}};
  run.summaries[14].sm_clock_mean_mhz = 546;
  run.summaries[14].die_mean_c = 87;
  const std::string said = bottleneck_sentence(measure(run).bottlenecks.at(0), 2 * unit::s);
  CHECK(contains(said, "its slowest, GPU 14, at 546.0 MHz against"));
  CHECK(contains(said, "die at 87 °C"));
}

/// A recording whose GPU 5 is slow, at the power cap like all, with limits read.
run::Run with_limits(double own_limit_w, double own_power_w) {
  run::Run run = recorded(1);
  for (int32_t d = 0; d < gpus; ++d)
    run.series.push_back({"power_limit_w", d, false, {Instant(0)}, {d == 5 ? own_limit_w : 700.0}});
  for (run::DeviceSummary& device : run.summaries)
    device.power_mean_w = 690;
  run.summaries[5].sm_clock_mean_mhz = 1400;
  run.summaries[5].power_mean_w = own_power_w;
  return run;
}

TEST_CASE("at the power cap, limits and power tell a lower limit, a hungry board and a held one") {
  CHECK(measure(with_limits(500, 498)).bottlenecks.at(0).cause == run::Cause::power_limit);
  CHECK(measure(with_limits(700, 690)).bottlenecks.at(0).cause == run::Cause::board);
  CHECK(measure(with_limits(700, 420)).bottlenecks.at(0).cause == run::Cause::power_delivery);
  run::Run hot = with_limits(700, 690);
  hot.summaries[5].die_mean_c = 90;  // it leaks more, or its board needs more
  CHECK(measure(hot).bottlenecks.at(0).cause == run::Cause::unknown);
  run::Run braked = with_limits(700, 420);
  braked.summaries[5].throttle = {{"hardware_power_brake", 0.9}};
  CHECK(measure(braked).bottlenecks.at(0).cause == run::Cause::power_brake);
}

TEST_CASE("GPUs that are slow for different reasons are named apart, each with its own evidence") {
  run::Run run = with_limits(700, 300);
  run.summaries[5].sm_clock_mean_mhz = 345;
  run.summaries[5].throttle = {{"hardware_power_brake", 1}};
  run.summaries[9].sm_clock_mean_mhz = 600;
  run.summaries[9].die_mean_c = 94;
  run.summaries[9].throttle = {{"hardware_thermal", 0.8}};
  const Metrics m = measure(run);
  REQUIRE(m.bottlenecks.size() == 2);
  CHECK(m.bottlenecks[0].who == std::vector<int32_t>{5});
  CHECK(m.bottlenecks[0].cause == run::Cause::power_brake);
  CHECK(m.bottlenecks[1].who == std::vector<int32_t>{9});
  CHECK(m.bottlenecks[1].cause == run::Cause::heat);
  CHECK(*m.bottlenecks[1].cost < *m.bottlenecks[0].cost);
}

TEST_CASE("GPUs that the hardware holds back are named however many, with or without steps") {
  // Two of four: brake and heat, as the bits of a driver without residency counters tell.
  run::Run run = recorded(1);
  run.devices.resize(4);
  run.summaries.resize(4);
  for (run::DeviceSummary& device : run.summaries)
    device.sm_clock_mean_mhz = 1755, device.throttle = {};
  run.summaries[2].sm_clock_mean_mhz = 345;
  run.summaries[2].throttle = {{"hardware_power_brake", 1}};
  run.summaries[1].sm_clock_mean_mhz = 600;
  run.summaries[1].die_mean_c = 94;
  run.summaries[1].throttle = {{"hardware_thermal", 1}};
  for (const bool has_steps : {true, false}) {
    if (!has_steps) run.steps.clear();
    const Metrics m = measure(run);
    REQUIRE(m.bottlenecks.size() == 2);
    CHECK(m.bottlenecks[0].who == std::vector<int32_t>{2});
    CHECK(m.bottlenecks[0].cause == run::Cause::power_brake);
    CHECK(m.bottlenecks[1].cause == run::Cause::heat);
    CHECK(m.bottlenecks[1].cost.has_value() == has_steps);
    const std::string heat = bottleneck_sentence(m.bottlenecks[1], m.step_time);
    CHECK(contains(heat, "(the hardware's heat limit, die at 94 °C against"));
  }
}

TEST_CASE("the bit of any hardware slowdown is no brake, and heat only where the die is hotter") {
  run::Run run = with_limits(700, 400);
  run.summaries[5].throttle = {{"hardware_slowdown", 0.9}};
  const run::Bottleneck one = measure(run).bottlenecks.at(0);
  CHECK(one.cause == run::Cause::unknown);
  CHECK(contains(bottleneck_sentence(one, {}), "(a hardware slowdown)"));
  CHECK(contains(bottleneck_advice(one), "the hardware does not say which"));
  run.summaries[5].die_mean_c = 95;
  CHECK(measure(run).bottlenecks.at(0).cause == run::Cause::heat);
}

TEST_CASE("a GPU that has nothing to do is neither slow nor a peer") {
  run::Run run = recorded(1);
  for (int32_t d = 0; d < gpus; ++d) {
    const bool idle = d >= 10;
    if (idle) run.summaries[as_size(d)].sm_clock_mean_mhz = 345;
    run.series.push_back(
        {"utilization", d, false, {Instant(0), instant_at(2 * unit::s)}, {idle ? 0 : 1.0, 0}});
  }
  CHECK(measure(run).bottlenecks.empty());
  run.summaries[3].sm_clock_mean_mhz = 1200;
  const Metrics m = measure(run);
  REQUIRE(m.bottlenecks.size() == 1);
  CHECK(m.bottlenecks[0].who == std::vector<int32_t>{3});
  CHECK(m.bottlenecks[0].evidence.front().peers > 1700);
}

TEST_CASE("a recording whose clocks scatter as healthy ones do names no GPU") {
  int fair = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    fair += measure(recorded(seed)).bottlenecks.empty() ? 1 : 0;
  CHECK(fair >= 95);
  // Two populations are no culprit among healthy ones.
  run::Run halves = recorded(1);
  for (size_t d = 0; d < 8; ++d)
    halves.summaries[d].sm_clock_mean_mhz = 1200;
  CHECK(measure(halves).bottlenecks.empty());
}

TEST_CASE("of a simulated run, those who cost less than a per cent of the step are not named") {
  run::Run run = recorded(1);
  run.manifest.origin = run::Origin::simulated;
  const std::vector<run::Evidence> clock = {{run::Evidence::Kind::clock, 1500, 1800}};
  run.bottlenecks = {{.who = {3}, .evidence = clock, .cost = 0.1 * unit::s},
                     {.who = {4}, .evidence = clock, .cost = 0.01 * unit::s}};
  const Metrics m = measure(run);
  REQUIRE(m.bottlenecks.size() == 1);
  CHECK(m.bottlenecks[0].who == std::vector<int32_t>{3});
}

}  // namespace
}  // namespace triplepoint::metrics
