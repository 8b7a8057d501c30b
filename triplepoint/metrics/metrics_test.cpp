// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/metrics.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

Instant at(double seconds) {
  return instant_at(seconds * unit::s);
}

/// Two nodes of four slots; slots 0 and 3 are hot. A step of two seconds.
run::Run eight_gpus() {
  run::Run run;
  for (int32_t i = 0; i < 8; ++i) {
    run.devices.push_back(
        {.index = i, .node = i / 4, .local = i % 4, .slot = i % 4, .name = "h200", .rank = i});
    const bool hot = i % 4 == 0 || i % 4 == 3;
    run::DeviceSummary summary{.power_mean_w = 600.0 + i,
                               .power_peak_w = 800.0 + i,
                               .energy_j = 2 * (600.0 + i),
                               .die_mean_c = hot ? 66.0 : 55.0,
                               .die_peak_c = hot ? 70.0 : 58.0,
                               .sm_clock_mean_mhz = 1700.0};
    summary.scale_up_bytes = 3e9;
    summary.energy_ledger_j = {{"compute", 800.0}, {"idle", 400.0 + 2 * i}};
    run.summaries.push_back(summary);
  }
  run.steps = {{.begin = at(0), .end = at(2), .samples = 128, .tokens = 128 * 2048}};
  run.model_flops = 8000 * unit::TFLOP;
  run.hardware_flops = 10000 * unit::TFLOP;
  run.peak_flops = 1000 * unit::TFLOP / unit::s;
  return run;
}

TEST_CASE("a run that knows nothing yields metrics that know nothing") {
  const Metrics m = measure({});
  CHECK(!m.step_time);
  CHECK(!m.bubble_fraction);
  CHECK(!m.exposed_communication);
  CHECK(!m.energy_j);
  CHECK(!m.power_mean_w);
  CHECK(!m.temperature_mean_c);
  CHECK(m.temperature_per_gpu_c.empty());
  CHECK(m.stages.empty());
  CHECK(m.throttle.empty());
}

TEST_CASE("speed and utilization are amounts over the step") {
  const Metrics m = measure(eight_gpus());
  CHECK(m.step_time.value() == 2 * unit::s);
  CHECK(m.samples_per_second.value() == Approx(64));
  CHECK(m.tokens_per_second_per_gpu.value() == Approx(128 * 2048 / 2.0 / 8));
  CHECK(m.model_tflops_per_gpu.value() == Approx(8000 / 2.0 / 8));
  CHECK(m.mfu.value() == Approx(0.5));
  CHECK(m.hfu.value() / m.mfu.value() == Approx(10000.0 / 8000));
}

TEST_CASE("energy is the sum over devices, and its ledger adds up to it") {
  const Metrics m = measure(eight_gpus());
  CHECK(m.energy_j.value() == Approx(*m.power_mean_w * 8 * 2));
  double ledger = 0;
  for (const auto& [purpose, joules] : m.energy_ledger_j)
    ledger += joules;
  CHECK(ledger == Approx(*m.energy_j));
  CHECK(m.joules_per_token.value() * 128 * 2048 == Approx(*m.energy_j));
  CHECK(m.samples_per_s_mj.value() == Approx(64 / (*m.energy_j / 1e6)));
  CHECK(m.power_peak_w.value() == 807);
}

TEST_CASE("energy is unknown as long as one device is") {
  run::Run run = eight_gpus();
  run.summaries[5].energy_j.reset();
  CHECK(!measure(run).energy_j);
  CHECK(measure(run).power_mean_w);
}

TEST_CASE("slots fall into a hot and a cool group by their temperature") {
  const Metrics m = measure(eight_gpus());
  CHECK(m.hot_mean_c.value() == Approx(66));
  CHECK(m.cool_mean_c.value() == Approx(55));
  CHECK(m.hot_over_cool.value() == Approx(1.2));
  CHECK(m.hottest_over_coolest.value() == Approx(1.2));
  CHECK(m.temperature_mean_c.value() == Approx(60.5));
  CHECK(m.temperature_peak_c.value() == 70);
}

TEST_CASE("a slot belongs to its group whatever a single device in it does") {
  run::Run run = eight_gpus();
  run.summaries[4].die_mean_c = 56;  // one cool board in a hot slot
  const Metrics m = measure(run);
  CHECK(m.hot_mean_c.value() == Approx((66 * 3 + 56) / 4.0));
  CHECK(m.hottest_over_coolest.value() == Approx(66.0 / 55));
}

TEST_CASE("a hot slot sets the pace of the nodes whose slowest device sits in it") {
  run::Run run = eight_gpus();
  CHECK(!measure(run).slowest_in_hot_slot);   // equal clocks: no device sets the pace
  run.summaries[3].sm_clock_mean_mhz = 1600;  // hot, node 0
  run.summaries[5].sm_clock_mean_mhz = 1650;  // cool, node 1
  const Metrics m = measure(run);
  CHECK(m.hot_slots == std::vector<int32_t>{0, 3});
  CHECK(m.slowest_in_hot_slot.value() == Approx(0.5));
  CHECK(m.hot_clock_mean_mhz.value() == Approx((3 * 1700 + 1600) / 4.0));
  CHECK(m.cool_clock_mean_mhz.value() == Approx((3 * 1700 + 1650) / 4.0));
}

TEST_CASE("lists by device have one entry each, and their mean is the mean over devices") {
  run::Run run = eight_gpus();
  run.summaries[2].throttle = {{"software_power_cap", 0.4}, {"hardware_thermal", 0.0}};
  run.summaries[2].scale_out_bytes = 5.0;
  run.numbers = {.clock_in_passes_mhz = 1650.2, .clock_lost_to_power_mhz = 197.9};
  const Metrics m = measure(run);
  REQUIRE(m.throttle_per_gpu.size() == 1);  // the reason that occurs
  CHECK(m.throttle_per_gpu.at("software_power_cap").size() == 8);
  CHECK(m.throttle_per_gpu.at("software_power_cap")[2] == 0.4);
  CHECK(m.throttle.at("software_power_cap") == Approx(0.4 / 8));
  CHECK(m.power_peak_per_gpu_w.size() == 8);
  CHECK(m.temperature_peak_per_gpu_c[0] == 70.0);
  CHECK(m.links.scale_up_per_gpu_bytes == std::vector<double>(8, 3e9));
  CHECK(std::isnan(m.links.scale_out_per_gpu_bytes[0]));
  CHECK(m.clock_in_passes_mhz.value() == Approx(1650.2));
  CHECK(m.clock_lost_to_power_mhz.value() == Approx(197.9));
  CHECK(!m.clock_lost_to_temperature_mhz);
}

TEST_CASE("a device that does not know its temperature is no device of zero degrees") {
  run::Run run = eight_gpus();
  run.summaries[0].die_mean_c.reset();
  const Metrics m = measure(run);
  CHECK(std::isnan(m.temperature_per_gpu_c.at(0)));
  CHECK(m.temperature_mean_c.value() == Approx((66 * 3 + 55 * 4) / 7.0));
}

TEST_CASE("throttle is the mean over devices of their share of time") {
  run::Run run = eight_gpus();
  run.summaries[2].throttle = {{"software_power_cap", 0.8}};
  CHECK(measure(run).throttle.at("software_power_cap") == Approx(0.1));
}

TEST_CASE("time with any reason counts reasons at once once") {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  run.devices = {{.index = 0}, {.index = 1}, {.index = 2}, {.index = 3}};
  run.steps = {{.begin = at(0), .end = at(4), .samples = 4}};
  const std::vector<Instant> times = {at(0), at(1), at(2), at(3), at(4)};
  const auto add = [&](const char* signal, int32_t device, std::vector<double> values) {
    run.series.push_back({.signal = signal, .device = device, .times = times, .values = values});
  };
  CHECK(measure(run).throttled_per_gpu.empty());
  // Polled: the power cap and heat together, then heat alone, then neither.
  add("throttle_reasons", 0, {4 | 32, 4 | 32, 32, 1, 1});
  // Counters alone: hardware slowdown goes with its cause.
  add("throttle_ns_hw_slowdown", 1, {0, 0.8e9, 1.6e9, 2.4e9, 3.2e9});
  add("throttle_ns_hw_thermal_slowdown", 1, {0, 0.6e9, 1.2e9, 1.8e9, 2.4e9});
  // Never held back, and known to be.
  add("throttle_reasons", 2, {1, 1, 1, 1, 1});
  add("sm_clock_mhz", 3, {1980, 1980, 1980, 1980, 1980});
  const Metrics m = measure(run);
  CHECK(m.throttle_per_gpu.at("software_power_cap")[0] == Approx(0.5));
  CHECK(m.throttle_per_gpu.at("software_thermal")[0] == Approx(0.75));
  REQUIRE(m.throttled_per_gpu.size() == 4);
  CHECK(m.throttled_per_gpu[0] == Approx(0.75));
  CHECK(m.throttled_per_gpu[1] == Approx(0.8));
  CHECK(m.throttled_per_gpu[2] == 0);
  CHECK(std::isnan(m.throttled_per_gpu[3]));
  // A counter sees what falls between polls; both together are no more than their sum.
  add("throttle_ns_sw_power_cap", 2, {0, 0.1e9, 0.2e9, 0.3e9, 0.4e9});
  CHECK(measure(run).throttled_per_gpu[2] == Approx(0.1));
  // The simulator gives each moment one reason.
  run::Run simulated = eight_gpus();
  simulated.manifest.origin = run::Origin::simulated;
  simulated.summaries[2].throttle = {{"software_power_cap", 0.5}, {"software_thermal", 0.4}};
  CHECK(measure(simulated).throttled_per_gpu.at(2) == Approx(0.9));
}

TEST_CASE("series answer where no summary was written") {
  run::Run run;
  run.devices = {{.index = 3, .rank = 0}};
  run.steps = {{.begin = at(1), .end = at(3), .samples = 4}};
  const std::vector<Instant> times = {at(0), at(1), at(2), at(3), at(4)};
  run.series = {
      {.signal = "power_w", .device = 3, .times = times, .values = {9, 9, 100, 300, 900}},
      {.signal = "die_c", .device = 3, .times = times, .values = {9, 50, 60, 90, 90}},
      {.signal = "throttle_reasons", .device = 3, .times = times, .values = {0, 0, 4, 0, 0}}};
  const Metrics m = measure(run);
  CHECK(m.power_mean_w.value() == Approx(200));  // a value stands for the second before it
  CHECK(m.energy_j.value() == Approx(400));
  CHECK(m.temperature_mean_c.value() == Approx(55));
  CHECK(m.throttle.at("software_power_cap") == Approx(0.5));
  CHECK(!m.sm_clock_mean_mhz);
}

TEST_CASE("an energy counter outranks power samples") {
  run::Run run;
  run.devices = {{.index = 0}};
  run.steps = {{.begin = at(0), .end = at(10)}};
  run.series = {{.signal = "energy_j", .times = {at(0), at(10)}, .values = {1e6, 1e6 + 5000}},
                {.signal = "power_w", .times = {at(0), at(10)}, .values = {1, 2}}};
  CHECK(measure(run).energy_j.value() == Approx(5000));
  CHECK(measure(run).power_mean_w.value() == Approx(500));
}

TEST_CASE("two steps are measured as their mean") {
  run::Run run;
  run.timeline.num_ranks = 1;
  run.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute}};
  for (int i : {0, 1, 2})  // the third begins after the last step
    run.timeline.spans.push_back({.begin = at(i), .end = at(i + 0.25 * (i + 1))});
  run.steps = {{.begin = at(0), .end = at(1), .tokens = 10},
               {.begin = at(1), .end = at(2), .tokens = 10}};
  const Metrics m = measure(run);
  CHECK(m.step_time.value() == 1 * unit::s);
  CHECK(m.kernels.compute / unit::s == Approx((0.25 + 0.5) / 2));
  CHECK(m.idle.value() / unit::s == Approx(1 - 0.375));
  CHECK(m.tokens_per_second.value() == Approx(10));
}

TEST_CASE("messages are counted by size, every repetition") {
  run::Run run;
  run.timeline.num_ranks = 1;
  run.timeline.types = {{.name = "ar",
                         .kind = run::SpanKind::communication,
                         .collective = spec::Collective::all_reduce}};
  run::PatternPiece piece{.repeat = 5, .length = 10 * unit::ns};
  piece.spans = {{.begin = Instant(0), .end = Instant(5), .bytes = 1024 * unit::B}};
  run.timeline.patterns = {{.name = "forward", .pieces = {piece}}};
  run.timeline.instances = {{.begin = Instant(0)}, {.begin = Instant(100)}};
  run.timeline.spans = {{.begin = Instant(200), .end = Instant(201), .bytes = 1025 * unit::B}};
  const auto messages = measure(run).links.messages;
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].upper == 1 * unit::KiB);
  CHECK(messages[0].count == 10);
  CHECK(messages[0].bytes == 10 * unit::KiB);
  CHECK(messages[1].upper == 2 * unit::KiB);
  CHECK(messages[1].count == 1);
}

/// Four ranks that compute and then meet in an all-reduce; rank 2 takes twice as long.
run::Run late_rank() {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  run.timeline.num_ranks = 4;
  run.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute},
                        {.name = "all_reduce",
                         .kind = run::SpanKind::communication,
                         .collective = spec::Collective::all_reduce,
                         .group = spec::GroupKind::tensor}};
  for (int32_t rank = 0; rank < 4; ++rank) {
    const double computing = rank == 2 ? 2 : 1;
    run.timeline.spans.push_back(
        {.begin = at(0), .end = at(computing), .type = 0, .rank = rank, .stage = 0});
    run.timeline.spans.push_back({.begin = at(computing),
                                  .end = at(2.5),
                                  .type = 1,
                                  .rank = rank,
                                  .stage = 0,
                                  .wait = (2 - computing) * unit::s});
    run.devices.push_back({.index = rank, .rank = rank});
    const auto add = [&](const char* signal, double of_two, double of_others) {
      run.series.push_back({signal, rank, false, {at(0)}, {rank == 2 ? of_two : of_others}});
    };
    add("sm_clock_mhz", 990, 1980);
    add("throttle_reasons", 64, 4);  // hardware_thermal, software_power_cap
  }
  run.steps = {{.begin = at(0), .end = at(2.5)}};
  return run;
}

run::Evidence evidence(const run::Bottleneck& bottleneck, run::Evidence::Kind kind) {
  const auto found = std::ranges::find(bottleneck.evidence, kind, &run::Evidence::kind);
  return found == bottleneck.evidence.end() ? run::Evidence{kind, -1, -1} : *found;
}

TEST_CASE("the rank whose own work lasts longer slows the others, and its clock is the cause") {
  using Kind = run::Evidence::Kind;
  const Metrics m = measure(late_rank());
  REQUIRE(m.bottlenecks.size() == 1);
  CHECK(m.bottlenecks[0].of == run::Bottleneck::Of::rank);
  CHECK(m.bottlenecks[0].who == std::vector<int32_t>{2});
  CHECK(*m.bottlenecks[0].waits / unit::s == Approx(3));
  CHECK(m.bottlenecks[0].cause == run::Cause::heat);
  CHECK(evidence(m.bottlenecks[0], Kind::kernels).value == Approx(1));
  CHECK(evidence(m.bottlenecks[0], Kind::kernels).name == "gemm");
  CHECK(evidence(m.bottlenecks[0], Kind::clock) == run::Evidence{Kind::clock, 990, 1980});
}

TEST_CASE("a late rank is found without waits and sensors as well, and then has no cause") {
  run::Run run = late_rank();
  run.timeline.communicators = {{.name = "all", .size = 4}};
  for (run::Span& span : run.timeline.spans) {
    span.wait = Seconds();
    const bool is_shared = span.type == 1;
    run.timeline.details.push_back(
        {.communicator = is_shared ? 0 : -1, .sequence = is_shared ? 0 : -1});
  }
  run.series.clear();
  const Metrics m = measure(run);
  REQUIRE(m.bottlenecks.size() == 1);
  CHECK(m.bottlenecks[0].who == std::vector<int32_t>{2});
  CHECK(m.bottlenecks[0].cause == run::Cause::unknown);
}

TEST_CASE("the energy of a site is that of its nodes times the PUE that the job states") {
  run::Run run;
  run.steps = {{.begin = Instant(0), .end = Instant(2000000000), .samples = 1, .tokens = 1}};
  run.series = {{.signal = "node_power_w",
                 .device = 0,
                 .of_node = true,
                 .times = {Instant(0), Instant(1000000000)},
                 .values = {5000, 7000}}};
  run.manifest.job.emplace();
  CHECK(measure(run).node_energy_j.value() == Approx(2 * 6000));
  run::Run counted = run;
  counted.series.front().signal = "node_energy_j";
  counted.series.front().times = {Instant(0), Instant(2000000000)};
  CHECK(measure(counted).node_energy_j.value() == Approx(7000 - 5000));
  CHECK_FALSE(measure(run).site_energy_j);
  run.manifest.job->environment.pue = 1.25;
  CHECK(measure(run).site_energy_j.value() == Approx(1.25 * 2 * 6000));
}

}  // namespace

}  // namespace triplepoint::metrics
