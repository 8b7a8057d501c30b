// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/sim/energy_account.h"
#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/step_at_clocks.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// A step together with the clocks, energies and temperatures it was simulated at.
struct CoupledStep {
  ClockState clocks;
  StepTimeline timeline;
  AccountedStep accounted;
  std::vector<Celsius> dies;
  int rounds = 1;  // how often its schedule was simulated
};

/// The loop power -> temperature -> leakage and clock -> durations -> power, at rest. Leaves `heat`
/// in that state.
///
///   T_d = heat(P)_d,   P_d = E_d(k_d, h_d, T_d; t) / t,   t = schedule(durations(k, h))
///   k_d: the highest clock at which every phase meets the power cap at T_d
///   h_d = min { h >= 0 : T_d <= held temperature }, or the lowest clock
///
/// h_d: the ceiling of heat, in clock steps, of which a fraction is a mean over two clocks. Where
/// the highest clock meets the cap only on a die as cool as the next lower one leaves it, the lower
/// one is taken. For a given t the devices of a node are solved together (air moves one way, so
/// what one needs hardly depends on the others); a longer t leaves every device more time to wait,
/// hence a lower ceiling and a shorter schedule. So schedule(t) - t falls and has one root, which
/// regula falsi finds: two or three schedules where heat limits no device, at most five where it
/// does, after which step times agree within 1e-4 of a step. Source: docs/models/simulation.md.
CoupledStep solve_steady_state(StepModel& model, ClusterHeat& heat);

/// One step at the present temperatures (none for devices without power), at clocks that power
/// alone allows.
CoupledStep step_at(StepModel& model, std::vector<Celsius> dies);
/// The same from the step before, and from where a governor would go; the schedule is simulated
/// again only if a clock has changed.
void update_step(StepModel& model, std::vector<Celsius> dies, std::span<const double> heat_ceiling,
                 CoupledStep& step);

/// The hottest device, if it has passed its shutdown temperature.
std::optional<run::Shutdown> find_shutdown(const spec::Gpu&, std::span<const Celsius> dies);

std::vector<Watts> mean_powers(const std::vector<DeviceStep>&);

}  // namespace triplepoint::sim
