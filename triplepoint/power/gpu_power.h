// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"
#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::power {

/// How one board differs from its type; 1 is the type's own value.
struct BoardFactors {
  double dynamic_energy = 1;
  double leakage = 1;
};

/// Mean power of one GPU over a load.
///
///   P t = P_idle_active t + [L(T, V) - L(T0, Vmax)] t + (P_wait - P_idle_active) (f/f_max)^w t_wait
///       + sum_class e_class F_class (f/f_max)^x + e_hbm B_hbm + e_up B_up + e_out B_out
///       + P_comm t_comm
///   L(T, V) = leakage * (V/Vmax) * exp((T - T0) / e_fold)
///
/// x: clock_exponent (energy per flop goes with V^2 along the V/f curve); V/Vmax = (f/f_max)^(x/2).
/// Holds at constant memory clock. Sources: docs/models/power.md.
Watts gpu_power(const spec::PowerCoefficients&, const spec::GpuLoad&, double clock_ratio, Celsius die,
                const BoardFactors&);

/// The parts of that sum, for the energy ledger. They add up to gpu_power * duration.
struct EnergyLedger {
  Joules idle, leakage, compute, memory, communication, waiting;
  Joules total() const { return idle + leakage + compute + memory + communication + waiting; }
};
EnergyLedger energy_of(const spec::PowerCoefficients&, const spec::GpuLoad&, double clock_ratio,
                       Celsius die, const BoardFactors&);

/// Leakage power at a die temperature and a clock.
Watts leakage_power(const spec::PowerCoefficients&, double clock_ratio, Celsius die, const BoardFactors&);

}  // namespace triplepoint::power
