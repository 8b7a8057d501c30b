// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/power.h"

// Power of one GPU as a sum of energies (formula, symbols and domain: power.h).
//
// A sum over causes instead of a share of TDP, because causes scale differently: arithmetic with
// V^2, the clock tree with f V^2, leakage with V and temperature, memory in part and links not at
// all. No term falls with clock, load or temperature, so power does not; the governor's bisection
// and die_at_power() rest on that. Sums are linear in the load: energies of loads add up.
//
// `idle`, `active_idle` and `waiting` are readings and contain each other. So differences are
// multiplied, and leakage enters as the difference to a typical die at the reference temperature,
// which the readings contain; the leakage term may be negative.

#include <algorithm>
#include <cmath>
#include <limits>

#include "triplepoint/base/result.h"

namespace triplepoint::power {
namespace {

Joules joules_per(double joules, double amount) {
  return joules * amount * unit::J;
}

/// Energy of all arithmetic at the maximum clock on a typical board.
Joules arithmetic(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load) {
  Joules energy;
  for (size_t i = 0; i < load.flops.size(); ++i)
    energy += joules_per(gpu.joules_per_tflop[i], load.flops[i] / unit::TFLOP);
  const double gemm = gpu.joules_per_tflop[as_size(spec::OpClass::gemm)];
  return energy - joules_per((1 - gpu.fp8_energy_share) * gemm, load.fp8_flops / unit::TFLOP) -
         joules_per((1 - gpu.fp4_energy_share) * gemm, load.fp4_flops / unit::TFLOP);
}

Joules links(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load) {
  const Seconds scale_up = load.communicating - load.communicating_scale_out;
  return joules_per(gpu.joules_per_scale_up_gb, load.scale_up_bytes / unit::GB) +
         joules_per(gpu.joules_per_scale_out_gb, load.scale_out_bytes / unit::GB) +
         gpu.communicating * scale_up + gpu.communicating_scale_out * load.communicating_scale_out;
}

Watts typical_leakage(const spec::PowerCoefficients& gpu, double voltage, Celsius die) {
  // A chip type without measured leakage has none, and no e-fold to divide by.
  if (gpu.leakage == Watts()) return Watts();
  return gpu.leakage * voltage * leakage_growth(gpu, die);
}

}  // namespace

double voltage_squared_ratio(const spec::PowerCoefficients& gpu, double clock_ratio) {
  return gpu.energy_floor + (1 - gpu.energy_floor) * std::pow(clock_ratio, gpu.clock_exponent);
}

Watts leakage_power(const spec::PowerCoefficients& gpu, double clock_ratio, Celsius die,
                    const BoardFactors& board) {
  return board.leakage * typical_leakage(gpu, clock_point(gpu, clock_ratio).voltage, die);
}

ClockPoint clock_point(const spec::PowerCoefficients& gpu, double clock_ratio) {
  const double voltage_squared = voltage_squared_ratio(gpu, clock_ratio);
  return {clock_ratio, voltage_squared, std::sqrt(voltage_squared)};
}

EnergyLedger energy_of(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load,
                       double clock_ratio, Celsius die, const BoardFactors& board) {
  return energy_of(gpu, load, clock_point(gpu, clock_ratio), die, board);
}

EnergyLedger energy_of(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load,
                       const ClockPoint& clock, Celsius die, const BoardFactors& board) {
  TPT_EXPECT(clock.ratio > 0);
  const double per_event = board.dynamic_energy * clock.voltage_squared;
  const double ticking = per_event * clock.ratio;
  // 1 - h + h r v, written as a deviation from full clock: part of memory energy is spent on the
  // chip's own wires and follows its clock and voltage.
  const double on_chip = gpu.hbm_clocked_share * (clock.ratio * clock.voltage_squared - 1);
  const Seconds resident =
      std::min(load.duration, load.computing + load.communicating + load.waiting);
  // At full clock the voltage is the highest, at the reference temperature the exponential is 1.
  const Watts leakage = board.leakage * typical_leakage(gpu, clock.voltage, die) - gpu.leakage;
  return {.idle = (gpu.idle + ticking * (gpu.active_idle - gpu.idle)) * load.duration,
          .leakage = leakage * load.duration,
          .compute = per_event * arithmetic(gpu, load),
          .memory = joules_per(gpu.joules_per_hbm_gb * (1 + on_chip), load.hbm_bytes / unit::GB),
          .communication = links(gpu, load),
          .waiting = ticking * (gpu.waiting - gpu.active_idle) * resident};
}

Watts gpu_power(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load, double clock_ratio,
                Celsius die, const BoardFactors& board) {
  TPT_EXPECT(load.duration > Seconds());
  return energy_of(gpu, load, clock_ratio, die, board).total() / load.duration;
}

Watts gpu_power(const spec::PowerCoefficients& gpu, const spec::GpuLoad& load,
                const ClockPoint& clock, Celsius die, const BoardFactors& board) {
  TPT_EXPECT(load.duration > Seconds());
  return energy_of(gpu, load, clock, die, board).total() / load.duration;
}

double leakage_growth(const spec::PowerCoefficients& gpu, Celsius die) {
  if (gpu.leakage == Watts()) return 1;
  return std::exp((die - gpu.reference_temperature) / gpu.leakage_e_fold);
}

EnergyLedger at_die(const spec::PowerCoefficients& gpu, EnergyLedger at_reference, Seconds duration,
                    double growth) {
  // Add what the readings contain, scale the whole leakage, take it out again.
  const Joules typical = gpu.leakage * duration;
  at_reference.leakage = growth * (at_reference.leakage + typical) - typical;
  return at_reference;
}

EnergyLedger by_flow(const spec::PowerCoefficients& gpu, EnergyLedger ledger, Seconds duration) {
  const Joules contained = gpu.leakage * duration;
  ledger.idle -= contained;
  ledger.leakage += contained;
  return ledger;
}

Celsius die_at_power(const spec::PowerCoefficients& gpu, Watts power, const ClockPoint& clock,
                     Celsius die, const BoardFactors& board, Watts wanted) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Watts leakage = board.leakage * typical_leakage(gpu, clock.voltage, die);
  // Without leakage power is the same at every temperature: always allowed or never.
  if (!(leakage > Watts())) return Celsius(power <= wanted ? infinity : -infinity);
  // The inverse of the exponential: leakage has to change by what is missing to `wanted`.
  const Watts allowed = leakage + (wanted - power);
  if (!(allowed > Watts())) return Celsius(-infinity);
  return die + std::log(allowed / leakage) * gpu.leakage_e_fold;
}

EnergyLedger& EnergyLedger::operator+=(const EnergyLedger& other) {
  idle += other.idle;
  leakage += other.leakage;
  compute += other.compute;
  memory += other.memory;
  communication += other.communication;
  waiting += other.waiting;
  return *this;
}

// A node at the wall: a sum of parts, and the conversion loss over all of them.

NodePower node_power(const spec::Cluster& cluster, const spec::Chassis& chassis, Watts devices,
                     double fan_share, double cpu_share) {
  const spec::Host& host = cluster.host;
  NodePower node{
      .devices = devices,
      .host = host.cpu_idle + cpu_share * (host.cpu_busy - host.cpu_idle),
      .network = as_real(cluster.scale_out.nics_per_node) * host.nic_power + host.switch_power,
      .fans = chassis.fan_power * (fan_share * fan_share * fan_share),
      .conversion_loss = Watts()};
  node.conversion_loss = node.total() * (1 / host.conversion_efficiency - 1);
  return node;
}

}  // namespace triplepoint::power
