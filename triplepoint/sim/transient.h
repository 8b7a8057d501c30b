// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/run.h"

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// Plays minutes of training from a machine at rest at its inlet temperature: windows of constant
/// mean power, exact heat in each, clocks chosen anew between them. Appends the series of all
/// devices, the steps, and the last step in detail.
void play_transient(run::Run& run, StepModel& model, ClusterHeat heat, const Horizon& horizon);

}  // namespace triplepoint::sim
