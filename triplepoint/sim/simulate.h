// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/sim/transient.h"

namespace triplepoint::sim {

/// Predicts a training job: builds its work, simulates the schedule at the clocks that power and
/// heat allow, and lets power, heat and clock settle on each other.
///
/// The job must be free of errors (spec::diagnose). One that does not fit in memory yields a Run
/// that says so and holds the memory breakdown. Equal input gives equal bits. Models:
/// docs/models/simulation.md.
run::Run simulate(const spec::Job& job, const Horizon& horizon);

/// How long the step lasts that simulate() reaches in thermal steady state, without the record of
/// it: power and temperature along a step cost far more than the step. The job must fit in memory.
Seconds steady_step_time(const spec::Job& job);
/// The same; nothing where the job does not fit in memory or a device would shut down.
std::optional<Seconds> find_steady_step_time(const spec::Job& job);

}  // namespace triplepoint::sim
