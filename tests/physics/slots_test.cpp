// SPDX-License-Identifier: Apache-2.0
// The HGX chassis against the slots of arXiv 2509.10371 (GPT3-175B on 32 H200, figures 13 and 17).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "tests/physics/loop.h"

namespace triplepoint {
namespace {

using doctest::Approx;

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
    CHECK(mean_of(slots_at("hgx-h200", watts)) == Approx(38.2 + 0.0402 * watts).epsilon(0.01));
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
          Approx(600 * 0.0088).epsilon(0.02));
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
}  // namespace triplepoint
