// SPDX-License-Identifier: Apache-2.0
// The HGX chassis against the slots of arXiv 2509.10371 (GPT3-175B on 32 H200, figures 13 and 17).

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/power.h"
#include "triplepoint/thermal/chassis.h"

#include "tests/physics/shipped.h"

namespace triplepoint {
namespace {

constexpr std::array<size_t, 4> hot_slots{0, 3, 4, 6}, cool_slots{1, 2, 5, 7};

/// Die temperatures of the eight slots when every GPU draws `watts`.
std::array<double, 8> slots_at(const char* cluster_name, double watts) {
  const spec::Cluster cluster = cluster_named(cluster_name);
  const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal, 1,
                                      cluster.chassis.fan_floor);
  const std::vector<Watts> power(8, watts * unit::W);
  const auto state = chassis.steady(power, cluster.chassis.inlet);
  std::array<double, 8> degrees{};
  for (size_t slot = 0; slot < 8; ++slot)
    degrees[slot] = chassis.die(state, static_cast<int64_t>(slot)).degrees();
  return degrees;
}

double mean_of(const std::array<double, 8>& degrees, const std::array<size_t, 4>& slots) {
  return std::accumulate(slots.begin(), slots.end(), 0.0,
                         [&](double sum, size_t slot) { return sum + degrees[slot] / 4; });
}

double mean_of(const std::array<double, 8>& degrees) {
  return std::accumulate(degrees.begin(), degrees.end(), 0.0) / 8;
}

/// The power at which the published line T = 38.2 C + 0.0402 K/W P has this mean temperature.
double power_for(double mean_degrees) {
  return (mean_degrees - 38.2) / 0.0402;
}

struct Row {
  const char* name;
  std::array<double, 8> measured;  // mean of the same slot over the four nodes
};

const std::array<Row, 4> figure_17{
    Row{"mean of all configurations", {63.08, 51.52, 50.60, 61.67, 63.70, 52.55, 63.33, 51.25}},
    Row{"TP8-PP4", {61.88, 50.42, 49.55, 60.75, 62.77, 51.45, 62.58, 50.03}},
    Row{"TP4-PP8", {68.85, 56.40, 55.65, 67.78, 69.15, 57.73, 69.53, 56.50}},
    Row{"TP2-PP16", {70.28, 57.40, 56.60, 68.72, 70.12, 58.52, 69.90, 57.15}}};

TEST_CASE("every H200 slot is within 1 C of its measured mean, at each of the measured loads") {
  for (const Row& row : figure_17) {
    const auto ours = slots_at("hgx-h200", power_for(mean_of(row.measured)));
    for (size_t slot = 0; slot < 8; ++slot) {
      INFO(row.name, ", slot ", slot, ": ours ", ours[slot], ", measured ", row.measured[slot]);
      CHECK(std::abs(ours[slot] - row.measured[slot]) < 1);
    }
  }
}

TEST_CASE("the mean temperature follows the measured line in power") {
  for (double watts : {170.0, 326.0, 463.0, 600.0, 648.0}) {
    CHECK(mean_of(slots_at("hgx-h200", watts)) ==
          doctest::Approx(38.2 + 0.0402 * watts).epsilon(0.01));
    // The line over all 55 runs of the paper, of which 19 are GPT3.
    CHECK(std::abs(mean_of(slots_at("hgx-h200", watts)) - (41.4 + 0.0359 * watts)) < 3);
  }
}

TEST_CASE("hot slots lead cool ones by 9.7 K at 305 W and 12.3 K at 600 W") {
  for (const auto& [watts, gap] : {std::pair{305.0, 9.7}, std::pair{600.0, 12.3}}) {
    const auto degrees = slots_at("hgx-h200", watts);
    CHECK(std::abs(mean_of(degrees, hot_slots) - mean_of(degrees, cool_slots) - gap) < 0.5);
  }
}

TEST_CASE("hot over cool is the measured ratio of 1.20 to 1.25") {
  for (const Row& row : figure_17) {
    const auto degrees = slots_at("hgx-h200", power_for(mean_of(row.measured)));
    const double ratio = mean_of(degrees, hot_slots) / mean_of(degrees, cool_slots);
    CHECK(ratio > 1.20);
    CHECK(ratio < 1.25);
  }
}

TEST_CASE("rear slots are warmed by the front row's power, front slots are not") {
  const spec::Cluster cluster = cluster_named("hgx-h200");
  const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal, 1, 0.8);
  std::vector<Watts> idle(8, 100 * unit::W), front_busy = idle;
  for (size_t slot : cool_slots)
    front_busy[slot] = 700 * unit::W;
  const auto before = chassis.steady(idle, Celsius(25)),
             after = chassis.steady(front_busy, Celsius(25));
  for (size_t slot : hot_slots) {
    const auto rear = static_cast<int64_t>(slot);
    CHECK((chassis.die(after, rear) - chassis.die(before, rear)) / unit::K ==
          doctest::Approx(600 * 0.0088).epsilon(0.02));
  }
}

TEST_CASE("on cold plates an H100 node runs at 41 to 50 C where air leaves it at 54 to 72 C") {
  const spec::Cluster cluster = cluster_named("hgx-h100");
  const auto range_of = [&](const spec::Chassis& chassis, double flow_share) {
    const thermal::ChassisModel model(chassis, *cluster.gpu.thermal, 1, flow_share);
    const auto state = model.steady(std::vector<Watts>(8, 600 * unit::W), chassis.inlet);
    Celsius low = model.die(state, 0), high = low;
    for (int64_t slot = 1; slot < 8; ++slot) {
      low = std::min(low, model.die(state, slot));
      high = std::max(high, model.die(state, slot));
    }
    return std::pair(low.degrees(), high.degrees());
  };
  REQUIRE(cluster.liquid_chassis.has_value());
  const auto [cool, warm] = range_of(*cluster.liquid_chassis, 1);
  CHECK(cool > 40);
  CHECK(warm < 51);
  const auto [front, rear] = range_of(cluster.chassis, 0.8);
  CHECK(front > 52);
  CHECK(rear < 74);
}

TEST_CASE("H100 and H200 share one chassis") {
  CHECK(cluster_named("hgx-h100").chassis == cluster_named("hgx-h200").chassis);
}

}  // namespace

// The A100's numbers against the tables they were fitted to, through the models themselves.

namespace {

std::optional<CsvTable> shared_table(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(TPT_SHARED_DIR) / "data" / name;
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: no ", path.string(), " (public measurements are not part of the repository)");
    return std::nullopt;
  }
  return CsvTable::parse(read_file(path.string()).value(), path.string()).value();
}

double number_at(const CsvTable& table, size_t row, const char* column) {
  return table.number(row, table.require_column(column).value()).value().value_or(0);
}

struct GridPoint {
  double clock_mhz, cap_w, power_w, speed;
};

/// One kernel of the locked clock x power cap grid (A100 80GB PCIe, 300 W).
std::vector<GridPoint> grid_of(const CsvTable& table, std::string_view workload) {
  std::vector<GridPoint> points;
  for (size_t row = 0; row < table.rows(); ++row)
    if (table.at(row, table.require_column("family").value()) == "ucl-a100-dvfs" &&
        table.at(row, table.require_column("workload").value()).starts_with(workload))
      points.push_back({.clock_mhz = number_at(table, row, "lock_sm_mhz"),
                        .cap_w = number_at(table, row, "power_cap_w"),
                        .power_w = number_at(table, row, "power_avg_w"),
                        .speed = number_at(table, row, "perf")});
  return points;
}

constexpr Celsius warm{45};  // the board's temperature was not recorded

Watts power_at(const spec::Gpu& gpu, const spec::GpuLoad& load, double ratio) {
  return power::gpu_power(*gpu.power, load, ratio, warm, {});
}

/// A kernel that computes all the time, with as much work as makes it draw `full` at full clock.
auto kernel_that_draws(const spec::Gpu& gpu, Watts full) {
  const Watts without = power_at(gpu, products({}, {})(1), 1);
  const double tflops = (full - without) / unit::W / gpu.power->joules_per_tflop[0];
  return products(tflops * unit::TFLOP / unit::s, {});
}

TEST_CASE("a compute-bound kernel's power at five locked clocks follows from its power at one") {
  const auto table = shared_table("power_dvfs_calibration.csv");
  if (!table) return;
  const spec::Gpu gpu = gpu_named("a100-80gb");
  const auto load_at = kernel_that_draws(gpu, 296 * unit::W);
  int seen = 0;
  for (const GridPoint& point : grid_of(*table, "pi-solver")) {
    if (point.cap_w != 300) continue;
    const double ratio = point.clock_mhz / 1410;
    INFO(point.clock_mhz, " MHz: measured ", point.power_w);
    CHECK(std::abs(power_at(gpu, load_at(ratio), ratio) / unit::W - point.power_w) < 4);
    ++seen;
  }
  CHECK(seen == 5);
}

TEST_CASE("under a lowered cap the governor finds the clock that the speed shows") {
  const auto table = shared_table("power_dvfs_calibration.csv");
  if (!table) return;
  const spec::Gpu gpu = gpu_named("a100-80gb");
  const auto load_at = kernel_that_draws(gpu, 296 * unit::W);
  const auto points = grid_of(*table, "pi-solver");
  CHECK(points.size() == 35);
  const double full_speed = points.back().speed;  // 1410 MHz, 300 W
  for (const GridPoint& point : points) {
    const auto power = [&](double locked_ratio) {
      const double ratio = locked_ratio * point.clock_mhz / 1410;
      return power_at(gpu, load_at(ratio), ratio);
    };
    const Hertz clock = clock::choose_clock(*gpu.governor, point.clock_mhz * unit::MHz,
                                            point.cap_w * unit::W, power)
                            .clock;
    INFO(point.clock_mhz, " MHz, ", point.cap_w, " W: ours ", clock / unit::MHz);
    CHECK(clock / (1410 * unit::MHz) / (point.speed / full_speed) ==
          doctest::Approx(1).epsilon(0.03));
  }
}

TEST_CASE("a stream's power falls with the clock although its speed does not") {
  const auto table = shared_table("power_dvfs_calibration.csv");
  if (!table) return;
  const spec::Gpu gpu = gpu_named("a100-80gb");
  for (const GridPoint& point : grid_of(*table, "BabelStream")) {
    if (point.cap_w != 300) continue;
    spec::GpuLoad load;
    load.duration = load.computing = 1 * unit::s;
    load.hbm_bytes = point.speed * unit::GB;
    const double ours = power_at(gpu, load, point.clock_mhz / 1410) / unit::W;
    INFO(point.clock_mhz, " MHz: ours ", ours, ", measured ", point.power_w);
    CHECK(std::abs(ours - point.power_w) < 12);
  }
}

TEST_CASE("the package follows a measured power step to what whole degrees allow") {
  const auto table = shared_table("thermal_transients_calibration.csv");
  if (!table) return;
  const auto modes = thermal::modes_of(*gpu_named("a100-40gb").thermal);
  constexpr double on = 1.52, off = 7.487, up = 128, down = 127.5;  // s, s, W, W
  double squares = 0, readings = 0;
  for (size_t row = 0; row < table->rows(); ++row) {
    if (table->at(row, table->require_column("trace_id").value()) != "a100-pcie40-step6s") continue;
    const double t = number_at(*table, row, "t_s");
    double degrees = 37.3;
    for (const thermal::Mode& mode : modes) {
      const auto rise = [&](double since) {
        return since > 0 ? mode.resistance.in_base_units() *
                               (1 - std::exp(-since / (mode.time_constant / unit::s)))
                         : 0;
      };
      degrees += up * rise(t - on) - down * rise(t - off);
    }
    const double error = degrees - (number_at(*table, row, "temp_core_c") + 0.5);
    squares += error * error;
    ++readings;
  }
  CHECK(readings == 1245);
  CHECK(std::sqrt(squares / readings) < 0.35);
}

}  // namespace

}  // namespace triplepoint
