// SPDX-License-Identifier: Apache-2.0
// The A100's numbers against the tables they were fitted to, through the models themselves.
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "tests/physics/loop.h"

namespace triplepoint {
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
