// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// A step together with the clocks, energies and temperatures it was played at.
struct CoupledStep {
  ClockState clocks;
  PlayedStep played;
  std::vector<DeviceStep> devices;
  std::vector<Celsius> dies;
  bool limit_cycle = false;  // clocks went on switching; this is the last round
  int rounds = 0;
};

/// The loop power -> temperature -> leakage and clock -> durations -> power, at thermal steady
/// state: repeated until no die moves by 0.1 K and no clock by a step. Plays the schedule only when
/// clocks changed. Leaves `heat` in that state.
CoupledStep settle(StepModel& model, ClusterHeat& heat);

/// One step at the present temperatures.
CoupledStep step_at(StepModel& model, std::vector<Celsius> dies);
/// The same from the step before; the schedule is played again only if a clock has changed.
/// Whether one has.
bool update_step(StepModel& model, std::vector<Celsius> dies, CoupledStep& step);

std::vector<Watts> mean_powers(const std::vector<DeviceStep>&);

}  // namespace triplepoint::sim
