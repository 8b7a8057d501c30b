// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/thermal/steady.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/thermal/chassis.h"

namespace triplepoint::thermal {
namespace {

/// Largest difference between the closed form and the network, all slots unlike each other.
double largest_difference(const char* cluster_name, double flow) {
  const auto cluster = spec::load_cluster(spec::default_library(), cluster_name);
  REQUIRE(cluster.has_value());
  const spec::Chassis& chassis = cluster->chassis;
  const spec::ThermalLadder& ladder = *cluster->gpu.thermal;
  const int dies = static_cast<int>(cluster->gpu.dies_per_package);
  std::vector<double> board, sink(chassis.slots.size(), 1);
  std::vector<Watts> power;
  for (size_t slot = 0; slot < chassis.slots.size(); ++slot) {
    board.push_back(0.9 + 0.03 * as_real(slot));
    power.push_back((100 + 50 * as_real(slot % 5)) * unit::W);
  }
  const ChassisModel network(chassis, ladder, dies, flow, board);
  const SteadySlots slots(chassis, ladder, dies);
  std::vector<double> state(as_size(slots.state_size()));
  slots.fill({.flow_share = flow, .inlet = Celsius(27), .board = board, .sink = sink}, power,
             state);
  const ChassisModel::State expected = network.steady(power, Celsius(27));
  REQUIRE(expected.size() == state.size());
  double largest = 0;
  for (size_t i = 0; i < state.size(); ++i)
    largest = std::max(largest, std::abs(state[i] - expected[i]));
  return largest;
}

TEST_CASE("the closed form of the steady state is the network's, air, liquid and joined dies") {
  for (const char* cluster : {"hgx-h200", "dgx-a100", "mi250", "gb200-nvl72"})
    for (const double flow : {0.3, 0.77, 1.0}) {
      CAPTURE(cluster);
      CHECK(largest_difference(cluster, flow) < 1e-8);
    }
}

TEST_CASE("a sink that conducts half lets its own slot alone rise") {
  const auto cluster = spec::load_cluster(spec::default_library(), "hgx-h200");
  REQUIRE(cluster.has_value());
  const SteadySlots slots(cluster->chassis, *cluster->gpu.thermal, 1);
  const size_t count = as_size(slots.slots());
  const std::vector<double> board(count, 1), plain(count, 1);
  std::vector<double> dusty = plain;
  dusty[2] = 2;
  const std::vector<Watts> power(count, 500 * unit::W);
  std::vector<double> before(as_size(slots.state_size())), after = before;
  slots.fill({.flow_share = 1, .inlet = Celsius(25), .board = board, .sink = plain}, power, before);
  slots.fill({.flow_share = 1, .inlet = Celsius(25), .board = board, .sink = dusty}, power, after);
  const size_t nodes = before.size() / count;
  for (size_t slot = 0; slot < count; ++slot)
    CHECK((after[slot * nodes] > before[slot * nodes]) == (slot == 2));
}

}  // namespace
}  // namespace triplepoint::thermal
