// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/power.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::power {
namespace {

using doctest::Approx;

constexpr Celsius reference{55};

spec::PowerCoefficients coefficients() {
  spec::PowerCoefficients gpu;
  gpu.idle = 72 * unit::W;
  gpu.active_idle = 115 * unit::W;
  gpu.waiting = 150 * unit::W;
  gpu.communicating = 120 * unit::W;
  gpu.communicating_scale_out = 20 * unit::W;
  gpu.joules_per_tflop.fill(2.0);
  gpu.joules_per_tflop[as_size(spec::OpClass::gemm)] = 0.8;
  gpu.joules_per_hbm_gb = 0.1;
  gpu.joules_per_scale_up_gb = 0.05;
  gpu.joules_per_scale_out_gb = 0.2;
  gpu.clock_exponent = 1.5;
  gpu.leakage = 25 * unit::W;
  gpu.leakage_e_fold = 50 * unit::K;
  gpu.reference_temperature = reference;
  return gpu;
}

spec::GpuLoad busy() {
  spec::GpuLoad load;
  load.duration = 2 * unit::s;
  load.flops[as_size(spec::OpClass::gemm)] = 900 * unit::TFLOP;
  load.flops[as_size(spec::OpClass::elementwise)] = 3 * unit::TFLOP;
  load.hbm_bytes = 1500 * unit::GB;
  load.scale_up_bytes = 200 * unit::GB;
  load.scale_out_bytes = 4 * unit::GB;
  load.computing = 1.4 * unit::s;
  load.communicating = 0.3 * unit::s;
  load.communicating_scale_out = 0.1 * unit::s;
  load.waiting = 0.2 * unit::s;
  return load;
}

spec::GpuLoad nothing(double seconds) {
  spec::GpuLoad load;
  load.duration = seconds * unit::s;
  return load;
}

Watts power_of(const spec::GpuLoad& load, double ratio = 1, Celsius die = reference,
               const BoardFactors& board = {}) {
  return gpu_power(coefficients(), load, ratio, die, board);
}

TEST_CASE("at its reference temperature and full clock an idle device draws active idle") {
  CHECK(power_of(nothing(3)) / unit::W == Approx(115));
}

TEST_CASE("a device that only spins draws the waiting power, all included") {
  spec::GpuLoad load = nothing(3);
  load.waiting = load.duration;
  CHECK(power_of(load) / unit::W == Approx(150));
}

TEST_CASE("moving data costs the communicating power on top of spinning") {
  spec::GpuLoad load = nothing(3);
  load.communicating = load.duration;
  CHECK(power_of(load) / unit::W == Approx(150 + 120));
  load.communicating_scale_out = load.duration;
  CHECK(power_of(load) / unit::W == Approx(150 + 20));
}

TEST_CASE("the ledger adds up to power times duration") {
  for (double ratio : {0.3, 0.8, 1.0})
    for (double degrees : {20.0, 55.0, 90.0}) {
      const BoardFactors board{.dynamic_energy = 1.04, .leakage = 0.8};
      const EnergyLedger ledger = energy_of(coefficients(), busy(), ratio, Celsius(degrees), board);
      const Joules power_times_duration =
          gpu_power(coefficients(), busy(), ratio, Celsius(degrees), board) * busy().duration;
      CHECK(ledger.total() / unit::J == Approx(power_times_duration / unit::J).epsilon(1e-12));
    }
}

TEST_CASE("energy of two loads is the energy of both one after the other") {
  spec::GpuLoad first = busy(), second = nothing(1), both = busy();
  second.waiting = second.duration;
  both += second;
  EnergyLedger sum = energy_of(coefficients(), first, 0.9, Celsius(70), {});
  sum += energy_of(coefficients(), second, 0.9, Celsius(70), {});
  CHECK(energy_of(coefficients(), both, 0.9, Celsius(70), {}).total() / unit::J ==
        Approx(sum.total() / unit::J).epsilon(1e-12));
}

TEST_CASE("energy per flop goes with the clock to its exponent") {
  spec::GpuLoad with = busy(), without = busy();
  without.flops.fill(Flops());
  const auto arithmetic = [&](double ratio) {
    return energy_of(coefficients(), with, ratio, reference, {}).compute / unit::J;
  };
  CHECK(arithmetic(0.7) / arithmetic(1) == Approx(std::pow(0.7, 1.5)));
  CHECK(energy_of(coefficients(), without, 1, reference, {}).compute == Joules());
}

TEST_CASE("at the voltage's floor energy per flop stops falling") {
  spec::PowerCoefficients gpu = coefficients();
  gpu.energy_floor = 0.35;
  gpu.clock_exponent = 6;
  CHECK(voltage_squared_ratio(gpu, 1) == Approx(1));
  CHECK(voltage_squared_ratio(gpu, 0.2) == Approx(0.35).epsilon(1e-3));
  CHECK(leakage_power(gpu, 0.2, reference, {}) / leakage_power(gpu, 1, reference, {}) ==
        Approx(std::sqrt(voltage_squared_ratio(gpu, 0.2))));
}

TEST_CASE("the on-chip share of memory energy follows clock and voltage, the rest stays") {
  spec::PowerCoefficients gpu = coefficients();
  gpu.hbm_clocked_share = 0.7;
  const auto memory = [&](double ratio) {
    return energy_of(gpu, busy(), ratio, reference, {}).memory / unit::J;
  };
  CHECK(memory(0.6) / memory(1) == Approx(0.3 + 0.7 * std::pow(0.6, 2.5)));
}

TEST_CASE("memory and link energy do not depend on the SM clock") {
  const EnergyLedger fast = energy_of(coefficients(), busy(), 1, reference, {});
  const EnergyLedger slow = energy_of(coefficients(), busy(), 0.5, reference, {});
  CHECK(fast.memory == slow.memory);
  CHECK(fast.communication == slow.communication);
}

TEST_CASE("power never falls with the clock, not even on a cold or a leaky die") {
  for (const spec::GpuLoad& load : {busy(), nothing(1)})
    for (double degrees : {5.0, 55.0, 95.0})
      for (double leakage : {0.5, 2.0}) {
        Watts before;
        for (double ratio = 0.2; ratio < 1.001; ratio += 0.01) {
          const Watts now = power_of(load, ratio, Celsius(degrees), {.leakage = leakage});
          CHECK(now >= before);
          before = now;
        }
      }
}

TEST_CASE("power grows with temperature, faster the hotter") {
  Watts step;
  for (double degrees = 20; degrees < 95; degrees += 5) {
    const Watts grown =
        power_of(busy(), 1, Celsius(degrees + 5)) - power_of(busy(), 1, Celsius(degrees));
    CHECK(grown > step);
    step = grown;
  }
}

TEST_CASE("leakage grows by e over its e-fold") {
  const Watts cold = leakage_power(coefficients(), 0.9, Celsius(40), {});
  CHECK(leakage_power(coefficients(), 0.9, Celsius(90), {}) / cold == Approx(std::exp(1.0)));
}

TEST_CASE("leakage goes with the voltage, the square root of energy per event") {
  const Watts full = leakage_power(coefficients(), 1, Celsius(70), {});
  CHECK(leakage_power(coefficients(), 0.81, Celsius(70), {}) / full ==
        Approx(std::pow(0.81, 0.75)));
}

TEST_CASE("a type without a leakage figure draws the same at every temperature") {
  spec::PowerCoefficients gpu = coefficients();
  gpu.leakage = Watts();
  gpu.leakage_e_fold = Kelvins();
  CHECK(gpu_power(gpu, busy(), 1, Celsius(20), {}) == gpu_power(gpu, busy(), 1, Celsius(90), {}));
}

TEST_CASE("a leaky board differs by its leakage, a hungry one by what the clock drives") {
  const Watts typical = power_of(busy());
  CHECK((power_of(busy(), 1, reference, {.leakage = 1.3}) - typical) / unit::W == Approx(0.3 * 25));
  const EnergyLedger parts = energy_of(coefficients(), busy(), 1, reference, {});
  const Joules clocked = parts.compute + parts.waiting + 43 * unit::W * busy().duration;
  CHECK((power_of(busy(), 1, reference, {.dynamic_energy = 1.1}) - typical) / unit::W ==
        Approx(0.1 * (clocked / busy().duration / unit::W)));
}

TEST_CASE("fp8 products cost their share of a 16-bit one") {
  spec::GpuLoad half = nothing(1), eighth = nothing(1);
  half.flops[0] = eighth.flops[0] = 500 * unit::TFLOP;
  eighth.fp8_flops = 500 * unit::TFLOP;
  const auto arithmetic = [](const spec::GpuLoad& load) {
    return energy_of(coefficients(), load, 1, reference, {}).compute;
  };
  CHECK(arithmetic(eighth) / arithmetic(half) == Approx(coefficients().fp8_energy_share));
}

TEST_CASE("kernels that overlap sit on the SMs once") {
  spec::GpuLoad load = nothing(1);
  load.computing = load.waiting = load.duration;
  CHECK(power_of(load) / unit::W == Approx(150));
}

spec::Cluster node() {
  spec::Cluster cluster;
  cluster.scale_out.nics_per_node = 8;
  cluster.chassis.fan_power = 1600 * unit::W;
  cluster.host = {.cpu_idle = 200 * unit::W,
                  .cpu_busy = 600 * unit::W,
                  .nic_power = 25 * unit::W,
                  .switch_power = 400 * unit::W,
                  .conversion_efficiency = 0.94};
  return cluster;
}

TEST_CASE("the wall sees the parts over the conversion efficiency") {
  const NodePower power = node_power(node(), node().chassis, 5600 * unit::W, 0.8, 0.5);
  const Watts parts = power.devices + power.host + power.network + power.fans;
  CHECK(power.total() / unit::W == Approx(parts / unit::W / 0.94));
}

TEST_CASE("halving the flow leaves an eighth of the fan power") {
  CHECK(node_power(node(), node().chassis, Watts(), 0.5, 0).fans /
            node_power(node(), node().chassis, Watts(), 1, 0).fans ==
        Approx(1.0 / 8));
}

TEST_CASE("CPUs draw between idle and busy by their busy share") {
  CHECK(node_power(node(), node().chassis, Watts(), 1, 0).host == 200 * unit::W);
  CHECK(node_power(node(), node().chassis, Watts(), 1, 1).host == 600 * unit::W);
  CHECK(node_power(node(), node().chassis, Watts(), 1, 0.25).host == 300 * unit::W);
}

TEST_CASE("every NIC and the switches draw power without traffic") {
  CHECK(node_power(node(), node().chassis, Watts(), 1, 0).network / unit::W ==
        Approx(8 * 25 + 400));
}

TEST_CASE("a lossless supply loses nothing") {
  spec::Cluster ideal = node();
  ideal.host.conversion_efficiency = 1;
  CHECK(node_power(ideal, ideal.chassis, 1 * unit::kW, 1, 1).conversion_loss == Watts());
}

}  // namespace

}  // namespace triplepoint::power
