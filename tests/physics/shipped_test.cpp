// SPDX-License-Identifier: Apache-2.0
// Every GPU type and cluster that is shipped, against what must hold for all of them.

#include "tests/physics/shipped.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/power/power.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint {
namespace {

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

TEST_CASE("all heat leaves with the coolant, whatever the cooling") {
  for (const char* name : {"hgx-h200", "mi250", "gb200-nvl72", "frontier"}) {
    const spec::Cluster cluster = cluster_named(name);
    const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal,
                                        cluster.gpu.dies_per_package, 1);
    const std::vector<Watts> power(as_size(chassis.slots()), 300 * unit::W);
    const auto state = chassis.steady(power, Celsius(25));
    CHECK(chassis.carried_off(state, Celsius(25)) / unit::W ==
          doctest::Approx(300.0 * as_real(chassis.slots())));
  }
}

TEST_CASE("nothing gets colder than the coolant, however little of that flows") {
  for (const std::string& name : spec::list_clusters(spec::default_library())) {
    spec::Cluster cluster = cluster_named(name.c_str());
    if (!cluster.gpu.thermal) continue;
    for (const double flow : {0.01, 0.05, 0.2}) {
      CAPTURE(name);
      CAPTURE(flow);
      const thermal::ChassisModel node(cluster.chassis, *cluster.gpu.thermal,
                                       cluster.gpu.dies_per_package,
                                       flow * cluster.chassis.fan_floor);
      const std::vector<Watts> power(as_size(node.slots()), 300 * unit::W);
      auto state = node.uniform(Celsius(40));
      for (int i = 0; i < 20; ++i) {
        node.advance(state, power, Celsius(20), 5 * unit::s);
        CHECK(std::ranges::min(state) > 20);
      }
    }
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
  const double wall =
      power::node_power(cluster, cluster.chassis, 8 * 690 * unit::W, 1, 0.5).total() / unit::W;
  CHECK(wall == doctest::Approx(7154).epsilon(0.03));
}

}  // namespace
}  // namespace triplepoint
