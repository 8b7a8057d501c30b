// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/models/{power,thermal,clock}.md: computed here, looked up there.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"

#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/power.h"
#include "triplepoint/thermal/chassis.h"

#include "tests/physics/shipped.h"

namespace triplepoint {
namespace {

void check_page_says(const char* page, const std::vector<std::string>& lines) {
  const std::string text = read_file(std::string(TPT_SOURCE_DIR "/docs/models/") + page).value();
  for (const std::string& line : lines) {
    INFO(page, " should say: ", line);
    CHECK(text.find(line) != std::string::npos);
  }
}

/// One second of dense training on an H200: products, vector work, a collective, some waiting.
spec::GpuLoad example_second() {
  spec::GpuLoad load;
  load.duration = 1 * unit::s;
  load.flops[as_size(spec::OpClass::gemm)] = 520 * unit::TFLOP;
  load.flops[as_size(spec::OpClass::attention)] = 20 * unit::TFLOP;
  load.flops[as_size(spec::OpClass::elementwise)] = 2 * unit::TFLOP;
  load.hbm_bytes = 600 * unit::GB;
  load.scale_up_bytes = 40 * unit::GB;
  load.computing = 0.80 * unit::s;
  load.communicating = 0.12 * unit::s;
  load.waiting = 0.05 * unit::s;
  return load;
}

TEST_CASE("the worked example of the power page is what the model computes") {
  const spec::Gpu gpu = gpu_named("h200");
  std::vector<std::string> lines;
  for (double megahertz : {1980.0, 1650.0}) {
    const double ratio = megahertz * unit::MHz / *gpu.max_clock;
    const power::EnergyLedger j = power::by_flow(
        *gpu.power, power::energy_of(*gpu.power, example_second(), ratio, Celsius(65), {}),
        example_second().duration);
    lines.push_back(fmt::format(
        "| {:.0f} MHz | {:.0f} | {:.1f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} |", megahertz,
        j.idle / unit::J, j.leakage / unit::J, j.waiting / unit::J, j.compute / unit::J,
        j.memory / unit::J, j.communication / unit::J, j.total() / unit::J));
  }
  const spec::Cluster h200 = cluster_named("hgx-h200");
  const power::NodePower node = power::node_power(h200, h200.chassis, 8 * 650 * unit::W, 0.8, 0.5);
  lines.push_back(
      fmt::format("{:.0f} W of GPUs, {:.0f} W of host, {:.0f} W of network, {:.0f} W of fans and "
                  "{:.0f} W of losses: {:.0f} W",
                  node.devices / unit::W, node.host / unit::W, node.network / unit::W,
                  node.fans / unit::W, node.conversion_loss / unit::W, node.total() / unit::W));
  check_page_says("power.md", lines);
}

TEST_CASE("the worked example of the thermal page is what the model computes") {
  const spec::Cluster cluster = cluster_named("hgx-h200");
  const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal, 1, 0.8);
  const auto state = chassis.steady(std::vector<Watts>(8, 600 * unit::W), Celsius(25));
  std::vector<std::string> lines;
  for (int64_t slot = 0; slot < 8; ++slot)
    lines.push_back(fmt::format("| {} | {:.1f} | {:.1f} |", slot,
                                chassis.coolant(state, slot, Celsius(25)).degrees(),
                                chassis.die(state, slot).degrees()));
  const auto modes = thermal::modes_of(*cluster.gpu.thermal);
  for (double seconds : {0.01, 0.1, 1.0, 10.0, 60.0}) {
    double rise = 0;
    for (const thermal::Mode& mode : modes)
      rise += 600 * mode.resistance.in_base_units() *
              (1 - std::exp(-seconds / (mode.time_constant / unit::s)));
    lines.push_back(fmt::format("| {:g} s | {:.1f} K |", seconds, rise));
  }
  check_page_says("thermal.md", lines);
}

TEST_CASE("the worked example of the clock page is what the governor chooses") {
  const spec::Gpu gpu = gpu_named("h200");
  std::vector<std::string> lines;
  for (double watts : {700.0, 500.0, 350.0})
    for (double degrees : {45.0, 80.0, 88.0}) {
      const auto power_at = [&](double ratio) {
        return power::gpu_power(
            *gpu.power, products(770 * unit::TFLOP / unit::s, 400 * unit::GB / unit::s)(ratio),
            ratio, Celsius(degrees), {});
      };
      const clock::ClockChoice choice =
          clock::choose_clock(*gpu.governor, *gpu.max_clock, watts * unit::W, power_at);
      const auto* const reason = std::ranges::find(
          run::throttle_reasons, static_cast<uint32_t>(choice.reason), &run::ThrottleReason::bit);
      lines.push_back(fmt::format("| {:.0f} W | {:.0f} C | {:.0f} MHz | {:.0f} W | {} |", watts,
                                  degrees, choice.clock / unit::MHz,
                                  power_at(choice.clock / *gpu.max_clock) / unit::W,
                                  reason == run::throttle_reasons.end() ? "none" : reason->name));
    }
  check_page_says("clock.md", lines);
}

}  // namespace
}  // namespace triplepoint
