// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::power {

/// How one board differs from its type; 1 is the type's own value.
struct BoardFactors {
  double dynamic_energy = 1;
  double leakage = 1;
};

/// Mean power of one GPU over a load: an energy sum over its duration t.
///
///   P t = idle t                                              regulators, HBM refresh, i/o
///       + d (active_idle - idle) r v t                        clock tree
///       + d (waiting - active_idle) r v t_resident            a kernel sits on the SMs and issues
///       + d v (sum_class e_class F_class - (1 - s) e_gemm F_fp8)      arithmetic
///       + e_hbm B_hbm (1 - h + h r v)                         memory, and its way across the chip
///       + e_up B_up + e_out B_out                             links
///       + communicating (t_comm - t_comm_out) + communicating_scale_out t_comm_out
///       + [l L(T, r) - L(T0, 1)] t                            leakage, less what is in the above
///   v = V^2 / V_max^2 = energy_floor + (1 - energy_floor) r^x
///   t_resident = min(t, t_computing + t_comm + t_waiting)
///   L(T, r) = leakage sqrt(v) exp((T - T0) / e_fold)
///
/// r: clock over maximum clock. x: clock_exponent. Energy per event goes with V^2, power of what
/// ticks all the time with f V^2, leakage with V. Along a vendor's V/f curve v is a power of the
/// clock at the top and flat where the voltage has reached its floor.
/// d, l: the board's dynamic and leakage factors. s: fp8_energy_share. h: hbm_clocked_share.
/// `idle`, `active_idle` and `waiting` are what a typical board draws at T0 and full voltage, each
/// with its leakage and all of the one before, so the bracket is negative on a colder, slower or
/// tighter die. With clocks down the voltage is down as well: such a reading is lower than `idle`.
/// Holds at constant memory clock, between the clocks a governor chooses. Never falls with r, with
/// a load or with T. Sources: docs/models/power.md.
Watts gpu_power(const spec::PowerCoefficients&, const spec::GpuLoad&, double clock_ratio,
                Celsius die, const BoardFactors&);

/// The parts of that sum, for the energy ledger. They add up to gpu_power * duration.
struct EnergyLedger {
  Joules idle;           // idle and clock tree
  Joules leakage;        // beyond a typical die's at T0 and full voltage; may be negative (by_flow)
  Joules compute;        // arithmetic
  Joules memory;         // HBM
  Joules communication;  // links, and what feeds them
  Joules waiting;        // kernels that sit on the SMs: all of what spinning costs
  Joules total() const { return idle + leakage + compute + memory + communication + waiting; }
  EnergyLedger& operator+=(const EnergyLedger&);
};
EnergyLedger energy_of(const spec::PowerCoefficients&, const spec::GpuLoad&, double clock_ratio,
                       Celsius die, const BoardFactors&);

/// What of the power depends on the clock alone: worked out once for each clock of a governor where
/// millions of powers are asked for. The same bits.
struct ClockPoint {
  double ratio = 1, voltage_squared = 1, voltage = 1;
};
ClockPoint clock_point(const spec::PowerCoefficients&, double clock_ratio);
EnergyLedger energy_of(const spec::PowerCoefficients&, const spec::GpuLoad&, const ClockPoint&,
                       Celsius die, const BoardFactors&);
Watts gpu_power(const spec::PowerCoefficients&, const spec::GpuLoad&, const ClockPoint&,
                Celsius die, const BoardFactors&);

/// exp((T - T0) / e_fold): by how much leakage exceeds that at the reference temperature.
double leakage_growth(const spec::PowerCoefficients&, Celsius die);
/// The energy of a load over `duration` at another die temperature than the reference one: only the
/// leakage differs.
EnergyLedger at_die(const spec::PowerCoefficients&, EnergyLedger at_reference, Seconds duration,
                    double leakage_growth);
/// The die temperature at which a load that draws `power` on a die at `die` would draw `wanted`;
/// minus infinity where no cold makes it so low, infinity where its power knows no temperature.
Celsius die_at_power(const spec::PowerCoefficients&, Watts power, const ClockPoint&, Celsius die,
                     const BoardFactors&, Watts wanted);

/// V^2 / V_max^2 at a clock ratio: the energy per event over that at the maximum clock.
double voltage_squared_ratio(const spec::PowerCoefficients&, double clock_ratio);

/// The same energy by what flows: `leakage` all of l L(T, r) t, `idle` without the leakage that the
/// readings of a typical board contain. The sum is the same; no part is negative.
EnergyLedger by_flow(const spec::PowerCoefficients&, EnergyLedger, Seconds duration);

/// Leakage power L(T, r) at a die temperature and a clock.
Watts leakage_power(const spec::PowerCoefficients&, double clock_ratio, Celsius die,
                    const BoardFactors&);

struct NodePower {
  Watts devices, host, network, fans, conversion_loss;
  Watts total() const { return devices + host + network + fans + conversion_loss; }
};

/// Power of one node at the wall.
///
///   host = cpu_idle + cpu_share (cpu_busy - cpu_idle)
///   network = nics nic_power + switch_power
///   fans = fan_power fan_share^3
///   conversion_loss = (1 / conversion_efficiency - 1) (devices + host + network + fans)
///
/// chassis: that of the job, whose cooling may not be the cluster's. devices: all devices of the
/// node. fan_share: flow over full flow (also of a pump). cpu_share: busy share.
/// Holds for in-node switches (their heat hardly depends on traffic); the fabric is not in it.
/// Source: affinity law of fans (power with flow^3 at constant geometry); docs/models/power.md.
NodePower node_power(const spec::Cluster&, const spec::Chassis&, Watts devices, double fan_share,
                     double cpu_share);

}  // namespace triplepoint::power
