// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/sim/energy_account.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// The highest power of each device over the measured steps, all like this one: one step where a
/// profiler runs in it (stack.profiled), else ten.
///
/// sensor_peak: median of the highest reading of the driver's sensor (power/sensor.h). A phase
/// whose mean exceeds the cap bursts after a rest, at the highest clock until the governor reacts
/// (clock/governor.h); a phase within the cap shows its hungriest window; not below the mean_power
/// that the devices have. instant_peak: of the kernel with the highest power at the highest clock.
/// Returns the median of the highest reading of any device: sensors look at different
/// moments, so it is not below the highest sensor_peak.
/// Model and limits: docs/models/power.md.
Watts add_peaks(StepModel&, const CoupledStep&, std::vector<DeviceStep>&);

}  // namespace triplepoint::sim
