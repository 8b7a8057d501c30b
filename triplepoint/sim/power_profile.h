// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/sim/energy_account.h"
#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// One step of every device in equal bins: mean power and clock in each, and the share of its time
/// in which something held the clock back.
struct StepProfile {
  Seconds bin;
  std::vector<std::vector<Watts>> power;         // [device][bin]
  std::vector<std::vector<double>> clock_ratio;  // [device][bin]
  std::vector<std::vector<double>> throttled;    // [device][bin]
};

/// What a profile holds: power alone, or all.
enum class Profiled { power, all };

/// Lays the simulated phases and waits of each device into bins. What happens outside phases has
/// one mean power, so that a device's bins add up to its energy.
StepProfile profile_step(StepModel& model, const CoupledStep& step, int64_t bins, Profiled);

/// Die temperatures along the step, [device][bin], in the periodic state: starts from `heat`,
/// simulates the step twice and keeps the second pass.
std::vector<std::vector<Celsius>> ripple(ClusterHeat heat, const StepProfile& profile);

}  // namespace triplepoint::sim
