// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// The highest power of each device over the measured steps, all like this one: one step where a
/// profiler runs in it (stack.profiled), else ten.
struct PowerPeaks {
  // Median of the highest reading of the driver's sensor (power/sensor.h). A phase whose mean
  // exceeds the cap bursts after a rest, at the highest clock until the governor reacts
  // (clock/governor.h); a phase within the cap shows its highest window. Not below the mean power.
  std::vector<Watts> sensor;
  std::vector<Watts> kernel;  // of the kernel with the highest power, at the highest clock
  // Median of the highest reading of any device: sensors look at different moments, so it is not
  // below the highest of `sensor`.
  Watts highest;
};

/// The job must have power coefficients. Model and limits: docs/models/power.md.
PowerPeaks find_peaks(StepModel&, const CoupledStep&);

}  // namespace triplepoint::sim
