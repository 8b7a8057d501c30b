// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/sim/energy_account.h"

namespace triplepoint::sim {

/// The highest power of each device over a step, before the governor has reacted: as a phase begins
/// at full clock after any wait. sensor_peak: the most that a sensor's window can show;
/// instant_peak: of the hungriest kernel.
void add_peaks(StepModel&, std::span<const Celsius> die, std::vector<DeviceStep>&);

}  // namespace triplepoint::sim
