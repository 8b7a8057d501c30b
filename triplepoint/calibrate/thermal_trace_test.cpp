// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/thermal_trace.h"

#include <cmath>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/calibrate/thermal_fit.h"
#include "triplepoint/calibrate/thermal_pulses.h"
#include "triplepoint/calibrate/thermal_tables.h"
#include "triplepoint/thermal/ladder.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

constexpr double rest_w = 60, work_w = 190, step_s = 2;

/// What a package at `coolant` shows of a power step, every tenth of a second.
std::string step_rows(const spec::ThermalLadder& ladder, double coolant) {
  std::string rows = "trace_id,gpu,t_s,power_w,temp_core_c\n";
  for (int i = 0; i <= 80; ++i) {
    const double t = 0.1 * i;
    double degrees = coolant;
    for (const thermal::Mode& mode : thermal::modes_of(ladder)) {
      const double r = mode.resistance / (unit::K / unit::W);
      const double settled =
          1 - std::exp(-std::max(0.0, t - step_s) / (mode.time_constant / unit::s));
      degrees += r * (rest_w + (work_w - rest_w) * settled);
    }
    rows += fmt::format("step,A100-PCIe-40GB,{},{},{}\n", t, t > step_s ? work_w : rest_w, degrees);
  }
  return rows;
}

spec::Chassis still_room() {
  spec::Chassis chassis;
  chassis.fan_floor = 1;
  chassis.volume_flow_m3_s = 0.1;
  chassis.seats = {spec::Seat{}};
  return chassis;
}

spec::ThermalLadder package() {
  return *spec::load_gpu(spec::default_library(), "a100-40gb").value().thermal;
}

TEST_CASE("a package's own response to a step is predicted whatever the room's temperature") {
  for (const double coolant : {20.0, 35.0}) {
    const auto traces = read_thermal_traces(parsed(step_rows(package(), coolant)));
    REQUIRE(traces.size() == 1);
    const auto shown = predict_trace(traces[0], package(), still_room());
    REQUIRE(shown.size() == traces[0].temperature.size());
    for (size_t i = 0; i < shown.size(); ++i)
      CHECK(std::abs(shown[i] - traces[0].temperature[i].value) < 0.3);
  }
}

TEST_CASE("power that changes between two readings changes when the temperatures say so") {
  // One reading of power before and one long after; temperatures tell that it rose in between.
  std::string rows = "trace_id,gpu,t_s,power_w,temp_core_c\n";
  const auto full = read_thermal_traces(parsed(step_rows(package(), 30)));
  for (const ThermalTrace::Sample& sample : full[0].temperature) {
    const double t = sample.at / unit::s;
    const bool asked = t < 0.05 || t > 3.95;
    rows += fmt::format("step,A100-PCIe-40GB,{},{},{}\n", t,
                        asked ? fmt::format("{}", t > step_s ? work_w : rest_w) : "", sample.value);
  }
  const auto traces = read_thermal_traces(parsed(rows));
  const auto shown = predict_trace(traces[0], package(), still_room());
  for (size_t i = 0; i < shown.size(); ++i)
    CHECK(std::abs(shown[i] - traces[0].temperature[i].value) < 0.6);
}

constexpr double pulse_s = 0.099, train_begin_s = 1, train_end_s = 4;

double pulsing_power(double t) {
  const bool on =
      t >= train_begin_s && t < train_end_s && std::fmod(t - train_begin_s, pulse_s) < pulse_s / 2;
  return on ? work_w : rest_w;
}

/// Pulses of 99 ms as an A100 shows them: power of the last 25 of every 100 ms, degrees each 14 ms.
ThermalTrace pulsing_trace(const spec::ThermalLadder& ladder) {
  ThermalTrace trace{.name = "pulses", .gpu = "A100-PCIe-40GB", .power = {}, .temperature = {}};
  const std::vector<thermal::Mode> modes = thermal::modes_of(ladder);
  std::vector<double> rises;
  rises.reserve(modes.size());
  for (const thermal::Mode& mode : modes)
    rises.push_back(mode.resistance / (unit::K / unit::W) * rest_w);
  double window = 0;
  for (int ms = 0; ms < 5000; ++ms) {
    const double t = 0.001 * ms, watts = pulsing_power(t);
    double degrees = 30;
    for (size_t k = 0; k < rises.size(); ++k) {
      const double settled = modes[k].resistance / (unit::K / unit::W) * watts;
      rises[k] =
          settled + (rises[k] - settled) * std::exp(-0.001 * unit::s / modes[k].time_constant);
      degrees += rises[k];
    }
    if (ms % 100 >= 75) window += watts / 25;
    if (ms % 100 == 99) trace.power.push_back({t * unit::s, std::exchange(window, 0)});
    if (ms % 14 == 0) trace.temperature.push_back({t * unit::s, std::round(degrees)});
  }
  return trace;
}

double rms_of(const ThermalTrace& trace, const spec::ThermalLadder& ladder) {
  const auto shown = predict_trace(trace, ladder, still_room());
  double squares = 0;
  for (size_t i = 0; i < shown.size(); ++i)
    squares += std::pow(shown[i] - trace.temperature[i].value, 2);
  return std::sqrt(squares / static_cast<double>(shown.size()));
}

TEST_CASE("pulses that the meter of power cannot follow are found in the temperatures") {
  const ThermalTrace trace = pulsing_trace(package());
  const ThermalTrace explained = explain_pulses(trace, package(), still_room());
  REQUIRE(explained.switches_known);
  const Seconds period = explained.power[3].at - explained.power[1].at;
  CHECK(period / unit::s == Approx(pulse_s).epsilon(0.005));
  CHECK(rms_of(trace, package()) > 1);
  CHECK(rms_of(explained, package()) < 0.5);
}

TEST_CASE("a step whose readings say it all stays as it was read") {
  const auto traces = read_thermal_traces(parsed(step_rows(package(), 30)));
  CHECK(!explain_pulses(traces[0], package(), still_room()).switches_known);
}

TEST_CASE("an idle device cools while the fans of its node blow for another one") {
  std::string rows = "trace_id,gpu,t_s,power_w,temp_core_c\n";
  for (const int card : {0, 1})
    for (int t = 0; t <= 1000; t += 5) {
      const bool works = card == 0 && t > 600 && t <= 900;
      rows +=
          fmt::format("run-card{},MI300X,{},{},{}\n", card, t, works ? 700 : 150, works ? 70 : 45);
    }
  const auto nodes = nodes_of(read_thermal_traces(parsed(rows)));
  REQUIRE(nodes.size() == 1);
  const spec::Cluster server = spec::load_cluster(spec::default_library(), "mi300x").value();
  const auto shown = predict_node(nodes[0], *server.gpu.thermal, lonely_seat(server.chassis));
  REQUIRE(shown.size() == 2);
  const size_t before = 110, late = 179;  // 550 and 895 s
  CHECK(shown[1][late] < shown[1][before] - 0.2);
}

TEST_CASE("traces of other runs and of other names stand for nodes of their own") {
  const auto trace = [](const char* name) {
    return ThermalTrace{.name = name, .gpu = "MI300X", .power = {}, .temperature = {}};
  };
  CHECK(nodes_of({trace("a-card0"), trace("b-card0"), trace("a-card12"), trace("step")}).size() ==
        3);
  CHECK(nodes_of({trace("step"), trace("step")}).size() == 2);
}

TEST_CASE("a trace at constant power says nothing of a package") {
  std::string rows = "trace_id,gpu,t_s,power_w,temp_core_c\n";
  for (int i = 0; i < 20; ++i)
    rows += fmt::format("idle,MI300X,{},150,44\n", 5 * i);
  const auto fits = fit_thermal(parsed(rows), spec::default_library());
  REQUIRE(!fits);
  CHECK(fits.error().what.find("no trace to fit heat to") != std::string::npos);
}

TEST_CASE("of a snapshot of a whole node only the differences are scored") {
  const auto at = [](double warmer) {
    std::string rows = "snapshot_id,gpu,gpu_index,temp_c,power_w,load\n";
    for (int i = 0; i < 8; ++i)
      rows += fmt::format("n,H100-SXM5-80GB,{},{},690,train\n", i, 55 + i + warmer);
    return score_thermal_snapshot_table(parsed(rows), spec::default_library()).value();
  };
  const TableScores cool = at(0), warm = at(10);
  REQUIRE(cool.scored.size() == 8);
  for (size_t i = 0; i < 8; ++i)
    CHECK(warm.scored[i].predicted - warm.scored[i].measured ==
          Approx(cool.scored[i].predicted - cool.scored[i].measured));
}

}  // namespace
}  // namespace triplepoint::calibrate
