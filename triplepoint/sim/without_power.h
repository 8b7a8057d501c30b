// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

namespace triplepoint::sim {

/// Whether nothing is known of the power, heat and clocks of the job's devices: ranks that are
/// processes on the cores of one machine.
bool lacks_power(const spec::Job& job);

/// Simulates such a job: with devices that draw nothing, stay at the inlet's temperature and run at
/// one clock, and takes everything out of the run again that would say so. Time, traffic and memory
/// stay; power, energy, heat and clocks are absent, not zero.
run::Run simulate_without_power(const spec::Job& job,
                                const std::function<run::Run(const spec::Job&)>& simulate);

}  // namespace triplepoint::sim
