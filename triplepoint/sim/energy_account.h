// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/power/power.h"
#include "triplepoint/sim/step_at_clocks.h"

namespace triplepoint::sim {

/// Energy and clock of one device over one step. Of all this only leakage depends on the die's
/// temperature, so a step whose clocks stay is accounted for at another one in no time.
struct DeviceStep {
  power::EnergyLedger ledger;
  Seconds throttled_power, throttled_thermal;  // time below the requested clock, by reason
  double mean_clock_ratio = 1;
  Watts mean_power;
  Bytes scale_up_bytes, scale_out_bytes;

  /// Of a die at the reference temperature: of the phases and what lies between them, and of all.
  power::EnergyLedger phases_at_reference, at_reference;
  Seconds in_phases, duration;
  Seconds alone, with_kernel;  // phases without waiting for the group; and a kernel in them
  double clock_seconds = 0;    // clock ratio times time in phases
};

/// What the members of a lockstep group have in common over a step that was simulated.
struct GroupStep {
  std::vector<spec::GpuLoad>
      between;            // [phase use]: gaps and sends that follow it, of all the step
  spec::GpuLoad outside;  // waiting for data and the step's end; no duration
  Seconds in_phases;      // phases at the lockstep group's pace, and what lies between
  Seconds with_kernel_between, with_kernel;  // of `between`, and of that and outside
  Seconds step_time;
};

/// A step's energy: of every device, and what it rests on of every lockstep group.
struct AccountedStep {
  std::vector<DeviceStep> devices;
  std::vector<std::vector<GroupStep>> groups;  // [pipeline][stage]
};

/// What is another since a step was accounted for, each 0 or 1.
struct Changed {
  std::vector<char> pipelines;  // simulated again
  std::vector<char> devices;    // at other clocks
};

/// At the reference temperature; set_dies() follows.
AccountedStep account_step(StepModel&, const ClockState&, const StepTimeline&);

/// In a step of this length: the simulated one's, or one in which every device waits longer or
/// less.
void update_account(StepModel&, const ClockState&, const StepTimeline&, const Changed&,
                    Seconds step_time, AccountedStep&);

/// The same clocks at other temperatures.
void set_dies(const StepModel&, std::span<const Celsius> die, std::vector<DeviceStep>& devices);

/// For how long of the host's gap before an action a receive sits on the device: it is posted when
/// the host turns to the exchange. What starts a pipeline or turns around at its end receives
/// nothing.
Seconds receive_gap(const StepModel&, size_t stage, const workload::Action&);

/// Share of a time in which a kernel sits on a device, as NVML's utilization has it: computing,
/// communicating, or waiting in a collective or a receive.
double share_with_kernel(const spec::GpuLoad&, Seconds time);

/// The same of what a device does outside of its phases: gaps and sends between them, waits for its
/// lockstep group (in a collective), the end of the step.
double utilization_outside(const DeviceStep&, const GroupStep&);

/// The same of the whole step.
double mean_utilization(const DeviceStep&, const GroupStep&);

/// A device that heat holds `heat_ceiling` steps below the maximum, where the others need `length`
/// for a step.
struct Ceiling {
  size_t device = 0;
  double heat_ceiling = 0;
  Seconds length;
  Celsius die;
};
/// Its mean power: it waits for the others, or they for it.
Watts power_under_ceiling(StepModel&, const ClockState&, const StepTimeline&, const AccountedStep&,
                          const Ceiling&);

}  // namespace triplepoint::sim
