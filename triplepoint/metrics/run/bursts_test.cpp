// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/bursts.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

/// A reading every `interval`, from the begin on.
run::Series series_of(const char* signal, const std::vector<double>& values, Seconds interval) {
  run::Series series{.signal = signal, .device = 0, .of_node = false, .values = values};
  for (size_t i = 0; i < values.size(); ++i)
    series.times.push_back(instant_at(as_real(i) * interval));
  return series;
}

run::Extent first(double seconds) {
  return {Instant(), instant_at(seconds * unit::s)};
}

/// 70 °C, but `fall` less in [from, to) of 100 readings.
std::vector<double> dip(double fall, size_t from, size_t to) {
  std::vector<double> degrees(100, 70.0);
  for (size_t i = from; i < to; ++i)
    degrees[i] -= fall;
  return degrees;
}

DeviceCoolDowns cool_downs_of(const std::vector<double>& degrees, Course course = Course::once) {
  const auto found = find_cool_downs(series_of("die_c", degrees, 1 * unit::s), first(100), course);
  REQUIRE(found.has_value());
  return *found;
}

TEST_CASE("a cool-down is deep and long enough, and its time is what lies in it") {
  const DeviceCoolDowns found = cool_downs_of(dip(8, 40, 50));
  CHECK(found.count == 1);
  CHECK(found.time == 10 * unit::s);
  CHECK(found.share_of_time == Approx(0.1));
  CHECK(found.largest_fall_k == Approx(8));
  CHECK(cool_downs_of(dip(cool_down_depth_k - 1, 40, 50)).count == 0);
  CHECK(cool_downs_of(dip(8, 40, 41)).count == 0);
  CHECK(cool_downs_of(dip(8, 40, 41)).largest_fall_k == Approx(8));
  CHECK(cool_downs_of(std::vector<double>(100, 70.0)).largest_fall_k == 0);
}

TEST_CASE("a GPU that warms up has not cooled down") {
  CHECK(cool_downs_of(dip(30, 0, 40)).count == 0);
  CHECK(cool_downs_of(dip(30, 60, 100)).count == 1);
}

TEST_CASE("rounding at the threshold does not split a cool-down") {
  std::vector<double> degrees = dip(5, 40, 60);
  for (size_t i = 41; i < 60; i += 2)
    degrees[i] += 1;
  CHECK(cool_downs_of(degrees).count == 1);
  CHECK(cool_downs_of(degrees).time == 20 * unit::s);
}

TEST_CASE("in a step that repeats, a cool-down over its end is one") {
  std::vector<double> degrees = dip(8, 0, 5);
  for (size_t i = 92; i < 100; ++i)
    degrees[i] -= 8;
  CHECK(cool_downs_of(degrees, Course::periodic).count == 1);
  CHECK(cool_downs_of(degrees, Course::periodic).time == 13 * unit::s);
  CHECK(cool_downs_of(degrees, Course::once).time == 8 * unit::s);
}

TEST_CASE("nothing is known of a gap between readings") {
  run::Series series = series_of("die_c", dip(8, 49, 50), 1 * unit::s);
  for (size_t i = 50; i < 100; ++i)
    series.times.own()[i] = instant_at(as_real(i + 60) * unit::s);
  const auto found = find_cool_downs(series, first(160), Course::once);
  REQUIRE(found.has_value());
  CHECK(found->count == 0);
  CHECK(found->share_of_time == 0);
  CHECK(found->largest_fall_k == Approx(8));
}

TEST_CASE("readings too far apart tell no cool-downs") {
  const run::Series sparse = series_of("die_c", dip(8, 40, 50), 3 * unit::s);
  CHECK(!find_cool_downs(sparse, first(300), Course::once));
}

/// A square wave: `high` for the first `share` of each period of ten readings.
std::vector<double> square(double low, double high, double share) {
  return numbered(100, [&](int i) { return i % 10 < share * 10 ? high : low; });
}

TEST_CASE("a square wave swings by its height, and its duty is its share above the level") {
  const auto bursts =
      measure_bursts(series_of("power_w", square(200, 700, 0.3), 0.2 * unit::s), first(20), 700.0);
  REQUIRE(bursts.has_value());
  CHECK(bursts->swing_w == Approx(500));
  CHECK(bursts->duty.value() == Approx(0.3));
  CHECK(bursts->ramp_up_w_per_s == Approx(500 / 0.2));
  CHECK(bursts->ramp_down_w_per_s == Approx(500 / 0.2));
  const auto unlimited =
      measure_bursts(series_of("power_w", square(200, 700, 0.3), 0.2 * unit::s), first(20), {});
  CHECK(!unlimited->duty);
}

TEST_CASE("a ramp is over 0.1 s where readings are closer") {
  std::vector<double> watts(1000);
  for (size_t i = 0; i < watts.size(); ++i)
    watts[i] = 300 + 100 * std::sin(as_real(i) * 0.01);  // 1 ms apart: 1000 W/s at most
  const auto bursts =
      measure_bursts(series_of("power_w", watts, 1 * unit::ms), first(1), std::nullopt);
  CHECK(bursts->ramp_up_w_per_s == Approx(1000 * 2 * std::sin(0.5)).epsilon(1e-3));
}

run::Run two_gpus() {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  for (int32_t d = 0; d < 2; ++d) {
    run.devices.push_back(
        {.index = d, .node = 0, .local = d, .slot = d, .name = "h200", .rank = d});
    run.series.push_back(series_of("die_c", d == 0 ? dip(8, 40, 60) : dip(0, 0, 0), 1 * unit::s));
    run.series.back().device = d;
    run.series.push_back(series_of("power_average_w", square(200, 700, 0.5), 1 * unit::s));
    run.series.back().device = d;
  }
  for (int i = 0; i < 2; ++i)
    run.steps.push_back({.begin = instant_at(50.0 * i * unit::s),
                         .end = instant_at(50.0 * (i + 1) * unit::s),
                         .samples = 8,
                         .tokens = 8 * 2048});
  return run;
}

TEST_CASE("of a run: means over the GPUs, counts of one step") {
  const Metrics m = measure(two_gpus());
  CHECK(m.cool_downs.share_per_gpu == std::vector<double>{0.2, 0});
  CHECK(m.cool_downs.share_of_time.value() == Approx(0.1));
  CHECK(m.cool_downs.count.value() == Approx(0.25));
  CHECK(m.cool_downs.mean_length.value() == 20 * unit::s);
  CHECK(m.bursts.swing_w.value() == Approx(500));
  CHECK(!m.bursts.duty);
  run::Run limited = two_gpus();
  limited.series.push_back(series_of("power_limit_w", {500}, 1 * unit::s));
  CHECK(measure(limited).bursts.duty.value() == Approx(0.5));
  limited.series.back().values = {0};  // none that was read
  CHECK(!measure(limited).bursts.duty);
}

TEST_CASE("temperature of memory and utilization are what the series tell over the steps") {
  run::Run run = two_gpus();
  CHECK(!measure(run).memory_mean_c);
  CHECK(measure(run).utilization_per_gpu.empty());
  run.series.push_back(series_of("memory_c", square(80, 90, 0.5), 1 * unit::s));
  run.series.push_back(series_of("utilization", square(0.2, 1, 0.5), 1 * unit::s));
  run.series.push_back(series_of("utilization", square(1, 1, 0.5), 1 * unit::s));
  run.series.back().device = 1;
  const Metrics m = measure(run);
  CHECK(m.memory_mean_c.value() == Approx(85));
  CHECK(m.memory_peak_c.value() == 90);
  CHECK(std::isnan(m.memory_per_gpu_c.at(1)));  // it has no such sensor
  CHECK(m.utilization_per_gpu.at(0) == Approx(0.6));
  CHECK(m.utilization_per_gpu.at(1) == Approx(1));
  CHECK(m.utilization.value() == Approx(0.8));
  CHECK(m.utilization_spread.within_nodes.value() == Approx(0.2));
  CHECK(!m.utilization_spread.between_nodes);
}

TEST_CASE("PCIe and memory power of every GPU are those of its counters and readings") {
  run::Run run = two_gpus();
  CHECK(measure(run).memory_power_per_gpu_w.empty());
  CHECK(measure(run).links.pcie_sent_per_gpu_bytes.empty());
  run.series.push_back(series_of("memory_power_w", square(80, 90, 0.5), 1 * unit::s));
  std::vector<double> sent;
  for (const double second : square(0, 0, 0.5))
    sent.push_back(second + 3e9 * as_real(sent.size()));
  run.series.push_back(series_of("pcie_tx_bytes", sent, 1 * unit::s));
  run.series.push_back(
      series_of("pcie_rx_bytes", std::vector<double>(sent.size(), 7), 1 * unit::s));
  const Metrics m = measure(run);
  CHECK(m.memory_power_per_gpu_w.at(0) == Approx(85));
  CHECK(std::isnan(m.memory_power_per_gpu_w.at(1)));
  const double step_s = m.step_time.value() / unit::s;
  CHECK(m.links.pcie_sent_per_gpu_bytes.at(0) == Approx(3e9 * step_s));
  CHECK(m.links.pcie_received_per_gpu_bytes.at(0) == 0);
  CHECK(std::isnan(m.links.pcie_sent_per_gpu_bytes.at(1)));
}

TEST_CASE("a simulated transient, which has means over windows, tells neither") {
  run::Run run = two_gpus();
  run.manifest.origin = run::Origin::simulated;
  run.manifest.fidelity = run::Fidelity::transient;
  CHECK(!measure(run).cool_downs.share_of_time);
  CHECK(!measure(run).bursts.swing_w);
  run.manifest.fidelity = run::Fidelity::steady_state;
  CHECK(measure(run).cool_downs.share_of_time.has_value());
}

}  // namespace
}  // namespace triplepoint::metrics
