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
  Watts mean_power, sensor_peak, instant_peak;
  Bytes scale_up_bytes, scale_out_bytes;

  /// Of a die at the reference temperature: of the phases and what lies between them, and of all.
  power::EnergyLedger phases_at_reference, at_reference;
  Seconds in_phases, duration;
  double clock_seconds = 0;  // clock ratio times time in phases
};

/// What the members of a lockstep group have in common over a step that was simulated.
struct GroupStep {
  std::vector<spec::GpuLoad>
      between;            // [phase use]: gaps and sends that follow it, of all the step
  spec::GpuLoad outside;  // waiting for data and the step's end; no duration
  Seconds in_phases;      // phases at the lockstep group's pace, and what lies between
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
