// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/heat/thermal_scores.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/thermal/ladder.h"

namespace triplepoint::calibrate {
namespace {

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

/// Of one node.
std::vector<ThermalTrace> traces_of(const std::string& rows) {
  TableScores scores;
  const auto nodes = read_thermal_nodes(parsed(rows), scores);
  REQUIRE(nodes.size() == 1);
  return nodes[0];
}

constexpr double rest_w = 60, work_w = 190, step_s = 2;

/// What a package at `coolant` shows of a power step, every tenth of a second.
std::string step_rows(const spec::ThermalLadder& ladder, double coolant) {
  std::string rows = "trace_id,node,t_s,power_w,temperature_c\n";
  for (int i = 0; i <= 80; ++i) {
    const double t = 0.1 * i;
    double degrees = coolant;
    for (const thermal::Mode& mode : thermal::modes_of(ladder)) {
      const double r = mode.resistance / (unit::K / unit::W);
      const double settled =
          1 - std::exp(-std::max(0.0, t - step_s) / (mode.time_constant / unit::s));
      degrees += r * (rest_w + (work_w - rest_w) * settled);
    }
    rows += fmt::format("step,step,{},{},{}\n", t, t > step_s ? work_w : rest_w, degrees);
  }
  return rows;
}

spec::Chassis still_room() {
  spec::Chassis chassis;
  chassis.fan_floor = 1;
  chassis.volume_flow_m3_s = 0.1;
  chassis.slots = {spec::Slot{}};
  return chassis;
}

spec::ThermalLadder package() {
  return *spec::load_gpu(spec::default_library(), "a100-40gb").value().thermal;
}

TEST_CASE("a package's own response to a step is predicted whatever the room's temperature") {
  for (const double coolant : {20.0, 35.0}) {
    const auto traces = traces_of(step_rows(package(), coolant));
    REQUIRE(traces.size() == 1);
    const auto shown = predict_node(traces, package(), still_room())[0];
    REQUIRE(shown.size() == traces[0].temperature.size());
    for (size_t i = 0; i < shown.size(); ++i)
      CHECK(std::abs(shown[i] - traces[0].temperature[i].value) < 0.3);
  }
}

TEST_CASE("power that changes between two readings changes when the temperatures say so") {
  // One reading of power before and one long after; temperatures tell that it rose in between.
  std::string rows = "trace_id,node,t_s,power_w,temperature_c\n";
  const auto full = traces_of(step_rows(package(), 30));
  for (const ThermalTrace::Sample& sample : full[0].temperature) {
    const double t = sample.at / unit::s;
    const bool asked = t < 0.05 || t > 3.95;
    rows += fmt::format("step,step,{},{},{}\n", t,
                        asked ? fmt::format("{}", t > step_s ? work_w : rest_w) : "", sample.value);
  }
  const auto traces = traces_of(rows);
  const auto shown = predict_node(traces, package(), still_room())[0];
  for (size_t i = 0; i < shown.size(); ++i)
    CHECK(std::abs(shown[i] - traces[0].temperature[i].value) < 0.6);
}

TEST_CASE("an idle device cools while the fans of its node blow for another one") {
  std::string rows = "trace_id,node,t_s,power_w,temperature_c\n";
  for (const int card : {0, 1})
    for (int t = 0; t <= 1000; t += 5) {
      const bool works = card == 0 && t > 600 && t <= 900;
      rows += fmt::format("run-card{},run,{},{},{}\n", card, t, works ? 700 : 150, works ? 70 : 45);
    }
  const spec::Cluster server = spec::load_cluster(spec::default_library(), "mi300x").value();
  const auto shown =
      predict_node(traces_of(rows), *server.gpu.thermal, lonely_slot(server.chassis));
  REQUIRE(shown.size() == 2);
  const size_t before = 110, late = 179;  // 550 and 895 s
  CHECK(shown[1][late] < shown[1][before] - 0.2);
}

TEST_CASE("of a snapshot of a whole node only the differences are scored") {
  const auto at = [](double warmer) {
    std::string rows = "row_id,snapshot_id,cluster,gpu_index,temperature_c,power_w\n";
    for (int i = 0; i < 8; ++i)
      rows += fmt::format("n {0},n,hgx-h100,{0},{1},690\n", i, 55 + i + warmer);
    return score_thermal_snapshots(parsed(rows), {.library = spec::default_library()}).value();
  };
  const TableScores cool = at(0), warm = at(10);
  REQUIRE(cool.scored.size() == 8);
  for (size_t i = 0; i < 8; ++i)
    CHECK(warm.scored[i].predicted - warm.scored[i].measured ==
          doctest::Approx(cool.scored[i].predicted - cool.scored[i].measured));
}

}  // namespace
}  // namespace triplepoint::calibrate
