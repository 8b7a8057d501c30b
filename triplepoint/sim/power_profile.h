// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "triplepoint/sim/energy_account.h"
#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// One step of every device in equal bins: mean power and clock in each, and the shares of its time
/// in which something held the clock back and in which a kernel was there.
struct StepProfile {
  Seconds bin;
  std::vector<std::vector<Watts>> power;         // [device][bin]
  std::vector<std::vector<double>> clock_ratio;  // [device][bin]
  std::vector<std::vector<double>> throttled;    // [device][bin]
  std::vector<std::vector<double>> utilization;  // [device][bin]
};

/// What a profile holds: power alone, or all.
enum class Profiled { power, all };

/// Lays the simulated phases and waits of each device into bins. What happens outside phases has
/// one mean power, so that a device's bins add up to its energy, and one mean utilization:
///
///   utilization = min(1, (computing + communicating + waiting) / t)
///
/// of what a phase, or all between and after phases, does in its time t: the share in which a
/// kernel sits on the device, as NVML's utilization has it. Collectives that wait count, and
/// receives that sit through the host's gap (receive_gap).
StepProfile profile_step(StepModel& model, const CoupledStep& step, int64_t bins, Profiled);

/// What the HBM of each device draws, mean over the step: without traffic, and for the bytes that
/// it reads and writes (not for their way across the chip). Nothing where data do not say the
/// first.
std::optional<std::vector<Watts>> memory_powers(const StepModel& model, const CoupledStep& step);

/// Temperatures along the step: the highest of each die, and [device][bin] where the course is
/// kept. Memories are there where their power is.
struct Ripple {
  std::vector<Celsius> die_peaks;
  std::vector<std::vector<Celsius>> dies, memories;
};
/// In the periodic state: starts from `heat`, simulates the step twice and keeps the second pass.
Ripple ripple(ClusterHeat heat, const StepProfile& profile, bool keep_course,
              const std::optional<std::vector<Watts>>& memory_power = {});

}  // namespace triplepoint::sim
