// SPDX-License-Identifier: Apache-2.0
// Laws of the loop temperature -> leakage and clock -> work -> power -> temperature.

#include <string>

#include <doctest/doctest.h>

#include "triplepoint/power/power.h"

#include "tests/physics/loop.h"

namespace triplepoint {
namespace {

using doctest::Approx;

Loop h200_node() {
  return {.cluster = cluster_named("hgx-h200"), .limit = 700 * unit::W, .inlet = Celsius(25)};
}

auto dense_products() {
  return products(770 * unit::TFLOP / unit::s, 400 * unit::GB / unit::s);
}
auto light_products() {
  return products(300 * unit::TFLOP / unit::s, 400 * unit::GB / unit::s);
}

double mean_clock_mhz(const LoopResult& result) {
  double sum = 0;
  for (const clock::ClockChoice& choice : result.clocks)
    sum += choice.clock / unit::MHz;
  return sum / as_real(result.clocks.size());
}

double total_watts(const LoopResult& result) {
  Watts sum;
  for (Watts power : result.power)
    sum += power;
  return sum / unit::W;
}

TEST_CASE("the loop closes") {
  for (double degrees : {15.0, 25.0, 40.0}) {
    Loop loop = h200_node();
    loop.inlet = Celsius(degrees);
    CHECK(loop.settle(dense_products()).rounds < 60);
  }
}

TEST_CASE("no device exceeds its limit, and each is within a clock step of it") {
  const Loop loop = h200_node();
  const LoopResult result = loop.settle(dense_products());
  for (size_t slot = 0; slot < result.power.size(); ++slot) {
    CHECK(result.power[slot] <= loop.limit);
    CHECK(result.clocks[slot].reason == clock::ClockEventReason::software_power_cap);
    CHECK(result.power[slot] > 0.97 * loop.limit);
  }
}

TEST_CASE(
    "a hotter room never makes a node faster, and costs clock under the cap through leakage") {
  double before = 1e9;
  for (double degrees : {15.0, 25.0, 35.0, 45.0}) {
    Loop loop = h200_node();
    loop.inlet = Celsius(degrees);
    const double now = mean_clock_mhz(loop.settle(dense_products()));
    CHECK(now <= before);
    before = now;
  }
  Loop cold = h200_node(), hot = h200_node();
  cold.inlet = Celsius(15);
  hot.inlet = Celsius(45);
  CHECK(mean_clock_mhz(hot.settle(dense_products())) <
        mean_clock_mhz(cold.settle(dense_products())) - 5);
}

TEST_CASE("without leakage a hotter room makes dies hotter by the same amount and nothing else") {
  Loop cool = h200_node();
  cool.cluster.gpu.power->leakage = Watts();
  Loop warm = cool;
  warm.inlet = cool.inlet + 8 * unit::K;
  const LoopResult a = cool.settle(dense_products()), b = warm.settle(dense_products());
  for (size_t slot = 0; slot < a.dies.size(); ++slot) {
    CHECK((b.dies[slot] - a.dies[slot]) / unit::K == Approx(8));
    CHECK(b.power[slot] / a.power[slot] == Approx(1));
  }
}

TEST_CASE("leakage makes a hotter room cost more than its own degrees while nothing throttles") {
  Loop cool = h200_node(), warm = h200_node();
  warm.inlet = cool.inlet + 10 * unit::K;
  const LoopResult a = cool.settle(light_products()), b = warm.settle(light_products());
  for (size_t slot = 0; slot < a.dies.size(); ++slot) {
    CHECK(b.clocks[slot].reason == clock::ClockEventReason::none);
    const double warmer = (b.dies[slot] - a.dies[slot]) / unit::K;
    CHECK(warmer > 10);
    CHECK(warmer < 11);  // far from a thermal runaway
  }
}

TEST_CASE("a lower limit never raises a clock, a power or a temperature") {
  LoopResult before = h200_node().settle(dense_products());
  for (const double watts : {650.0, 600.0, 550.0, 500.0, 450.0, 400.0, 350.0, 300.0, 250.0}) {
    Loop loop = h200_node();
    loop.limit = watts * unit::W;
    const LoopResult now = loop.settle(dense_products());
    for (size_t slot = 0; slot < now.dies.size(); ++slot) {
      CHECK(now.clocks[slot].clock <= before.clocks[slot].clock);
      CHECK(now.power[slot] <= before.power[slot]);
      CHECK(now.dies[slot] <= before.dies[slot]);
    }
    before = now;
  }
}

TEST_CASE("a leaky or hungry board is slower at the same limit, not more expensive") {
  Loop loop = h200_node();
  loop.boards.resize(8);
  const LoopResult typical = loop.settle(dense_products());
  loop.boards[2] = {.dynamic_energy = 1.05, .leakage = 1.5};
  const LoopResult odd = loop.settle(dense_products());
  CHECK(odd.clocks[2].clock < typical.clocks[2].clock);
  CHECK(odd.power[2] <= loop.limit);
}

TEST_CASE("a clogged rear row runs into its temperature target and heat is to blame") {
  Loop loop = h200_node();
  loop.inlet = Celsius(50);
  loop.cluster.chassis.slots[0].resistance_factor = 2.5;
  const LoopResult result =
      loop.settle(products(350 * unit::TFLOP / unit::s, 400 * unit::GB / unit::s));
  CHECK(clock::is_throttled(result.clocks[0].reason));
  CHECK(result.dies[0].degrees() == Approx(87).epsilon(1e-3));
  CHECK(result.clocks[0].reason != clock::ClockEventReason::software_power_cap);
  CHECK(result.clocks[1].reason == clock::ClockEventReason::none);
}

TEST_CASE("all heat leaves with the coolant, whatever the cooling") {
  for (const char* name : {"hgx-h200", "mi250", "gb200-nvl72", "frontier"}) {
    const spec::Cluster cluster = cluster_named(name);
    const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal,
                                        cluster.gpu.dies_per_package, 1);
    const std::vector<Watts> power(as_size(chassis.slots()), 300 * unit::W);
    const auto state = chassis.steady(power, Celsius(25));
    CHECK(chassis.carried_off(state, Celsius(25)) / unit::W ==
          Approx(300.0 * as_real(chassis.slots())));
  }
}

TEST_CASE("the loop draws its power from the parts the ledger names") {
  const Loop loop = h200_node();
  const LoopResult result = loop.settle(dense_products());
  double ledger = 0;
  for (size_t slot = 0; slot < result.dies.size(); ++slot) {
    const double ratio = result.clocks[slot].clock / *loop.cluster.gpu.max_clock;
    const spec::GpuLoad load = dense_products()(ratio);
    ledger +=
        power::energy_of(*loop.cluster.gpu.power, load, ratio, result.dies[slot], {}).total() /
        load.duration / unit::W;
  }
  // Powers were computed at the dies of the round before, which are the same once the loop has
  // closed.
  CHECK(ledger == Approx(total_watts(result)).epsilon(1e-3));
}

}  // namespace

// Every GPU type and cluster that is shipped, against what must hold for all of them.

namespace {

using doctest::Approx;

std::vector<spec::Gpu> modelled_gpus() {
  std::vector<spec::Gpu> gpus;
  for (const std::string& name : spec::list_gpus(spec::default_library())) {
    spec::Gpu gpu = gpu_named(name.c_str());
    if (gpu.power && gpu.thermal && gpu.governor && gpu.tdp && gpu.max_clock) gpus.push_back(gpu);
  }
  return gpus;
}

TEST_CASE("every modelled GPU idles below spinning, and spins far below its design power") {
  CHECK(modelled_gpus().size() >= 10);
  for (const spec::Gpu& gpu : modelled_gpus()) {
    INFO(gpu.name);
    CHECK(gpu.power->idle <= gpu.power->active_idle);
    CHECK(gpu.power->active_idle <= gpu.power->waiting);
    CHECK(gpu.power->waiting < 0.45 * *gpu.tdp);
    CHECK(gpu.power->leakage < 0.15 * *gpu.tdp);
  }
}

TEST_CASE("large products at four fifths of the peak bring every GPU near its limit") {
  for (const spec::Gpu& gpu : modelled_gpus()) {
    if (!gpu.peak_bf16) continue;
    INFO(gpu.name);
    const spec::GpuLoad load = products(0.8 * *gpu.peak_bf16, 500 * unit::GB / unit::s)(1);
    const Watts full = power::gpu_power(*gpu.power, load, 1, Celsius(60), {});
    CHECK(full > 0.75 * *gpu.tdp);
    // An H100 under a 500 W limit, and an MI300X whose nominal peak no product comes near.
    CHECK(full < 2.1 * *gpu.tdp);
  }
}

TEST_CASE("every package has at least two poles between die and coolant") {
  for (const spec::Gpu& gpu : modelled_gpus()) {
    INFO(gpu.name);
    const auto modes = thermal::modes_of(*gpu.thermal);
    CHECK(modes.size() >= 3);
    CHECK(modes.back().time_constant < 0.3 * unit::s);  // the die
    CHECK(modes.front().time_constant > 1 * unit::s);   // the sink
    CHECK(modes.front().time_constant < 300 * unit::s);
  }
}

TEST_CASE("every cluster holds its devices below their limits at design power and its own inlet") {
  for (const std::string& name : spec::list_clusters(spec::default_library())) {
    const spec::Cluster cluster = cluster_named(name.c_str());
    if (!cluster.gpu.thermal || !cluster.gpu.tdp) continue;
    const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal,
                                        cluster.gpu.dies_per_package, 1);
    const std::vector<Watts> power(as_size(chassis.slots()), *cluster.gpu.tdp);
    const auto state = chassis.steady(power, cluster.chassis.inlet);
    for (int64_t slot = 0; slot < chassis.slots(); ++slot) {
      INFO(name, " slot ", slot, ": ", chassis.die(state, slot).degrees());
      CHECK(chassis.die(state, slot) < Celsius(95));
      CHECK(chassis.die(state, slot) > Celsius(40));
    }
  }
}

TEST_CASE("the dies of an MI250 package differ by 5 to 10 K at load, the rear one being hotter") {
  const spec::Cluster cluster = cluster_named("mi250");
  const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal, 2, 1);
  const std::vector<Watts> power(8, 0.9 * *cluster.gpu.tdp);
  const auto state = chassis.steady(power, cluster.chassis.inlet);
  for (int64_t package = 0; package < 4; ++package) {
    const Kelvins skew = chassis.die(state, 2 * package + 1) - chassis.die(state, 2 * package);
    CHECK(skew > 5 * unit::K);
    CHECK(skew < 10 * unit::K);
  }
}

TEST_CASE("an H100 node in immersion draws what MLPerf logged, 7133 to 7175 W") {
  spec::Cluster cluster = cluster_named("dgx-h100");
  cluster.chassis.fan_power = Watts();
  cluster.host.conversion_efficiency = 1 / 1.016;  // AC over DC of the same runs
  const double wall = power::node_power(cluster, 8 * 690 * unit::W, 1, 0.5).total() / unit::W;
  CHECK(wall == Approx(7154).epsilon(0.03));
}

}  // namespace
}  // namespace triplepoint
