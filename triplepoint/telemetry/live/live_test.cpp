// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/live.h"

#include <doctest/doctest.h>

#include "triplepoint/telemetry/live/view.h"

#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry {
namespace {

using Kind = run::ReadingKind;

constexpr double no_period = 0;

/// A sensor whose clock the test turns, close to the machine's: what is current is judged by that.
struct LiveFixture {
  int64_t begin_ns = monotonic_now_ns() - 100'000'000'000;
  int64_t now_ns = begin_ns;
  std::unique_ptr<doubles::ScriptedSensor> sensor =
      std::make_unique<doubles::ScriptedSensor>("fake", [this] { return now_ns; });

  int32_t add_gpu() { return sensor->add_device({.name = "GPU"}); }
  /// `seconds` before the current time.
  void set_age(double seconds) {
    now_ns = monotonic_now_ns() - static_cast<int64_t>(seconds * 1e9);
  }
  Live live(SamplingPlan plan = {}) {
    Sensors sensors;
    for (const run::Device& device : sensor->devices())
      sensors.devices.push_back({.device = device, .sensor = 0});
    sensors.node.host = "node";
    sensors.all.push_back(std::move(sensor));
    plan.probe = 0 * unit::s;
    return Live(std::move(sensors), plan);
  }
};

TEST_CASE("a counter's rate is its growth between two readings") {
  LiveFixture fixture;
  const int32_t gpu = fixture.add_gpu();
  fixture.sensor->add(
      "energy_j", gpu, Kind::counter, [](double t) { return 300 * t; }, no_period);
  fixture.set_age(0.5);
  Live live = fixture.live();
  live.read_now();
  CHECK_FALSE(live.snapshot().readings.at(0).rate);
  fixture.set_age(0);
  live.read_now();
  CHECK(*live.snapshot().readings.at(0).rate == doctest::Approx(300));
  CHECK(*view_gpu(live.snapshot(), 0).power_w == doctest::Approx(300));
}

TEST_CASE("what a lost GPU said before is not shown as what it says now") {
  LiveFixture fixture;
  const int32_t lost = fixture.add_gpu(), fine = fixture.add_gpu();
  for (const int32_t gpu : {lost, fine})
    fixture.sensor->add(
        "die_c", gpu, Kind::instant, [](double) { return 70.0; }, no_period);
  fixture.sensor->lose_device(lost, 50, 1e9);
  fixture.now_ns = fixture.begin_ns + 40'000'000'000;  // a minute ago
  Live live = fixture.live();
  live.read_now();
  fixture.set_age(0);
  live.read_now();
  const Snapshot snapshot = live.snapshot();
  CHECK_FALSE(snapshot.devices[0].answers);
  CHECK(snapshot.devices[1].answers);
  CHECK(snapshot.readings.size() == 1);
}

TEST_CASE("readings that come rarely hold until the next one is due") {
  LiveFixture fixture;
  const int32_t gpu = fixture.add_gpu();
  fixture.sensor->add(
      "die_c", gpu, Kind::instant, [](double) { return 70.0; }, no_period);
  fixture.set_age(20);
  SamplingPlan rarely;
  rarely.interval = 1 * unit::s;  // slow channels every ten
  Live live = fixture.live(rarely);
  live.read_now();
  CHECK(live.snapshot().readings.size() == 1);
}

TEST_CASE("troubles are told once each, however often they come") {
  LiveFixture fixture;
  fixture.add_gpu();
  fixture.sensor->add_trouble(0, "GPU 0 fell off the bus");
  fixture.sensor->add_trouble(0, "GPU 0 fell off the bus");
  fixture.set_age(0);
  Live live = fixture.live();
  live.read_now();
  live.read_now();
  CHECK(live.snapshot().troubles == std::vector<std::string>{"GPU 0 fell off the bus"});
}

TEST_CASE("gaps of all sensors are in the snapshot") {
  LiveFixture fixture;
  fixture.sensor->add_gap({"HBM temperature", "not on this board", ""});
  Live live = fixture.live();
  CHECK(live.snapshot().gaps.at(0).what == "HBM temperature");
}

}  // namespace
}  // namespace triplepoint::telemetry
