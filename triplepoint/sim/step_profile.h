// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// A part of a step of one device: mean power and clock, and the shares of its time in which
/// something held the clock back and in which a kernel was there.
struct StepBin {
  Watts power;
  double clock_ratio = 0, throttled = 0, utilization = 0;
};

/// Box filter: lays the simulated phases and waits of a device into equal bins. What happens
/// outside phases has one mean power, so that the bins add up to the device's energy, and one mean
/// utilization:
///
///   utilization = min(1, (computing + communicating + waiting) / t)
///
/// of what a phase, or all between and after phases, does in its time t: the share in which a
/// kernel sits on the device, as NVML's utilization has it. Collectives that wait count, and
/// receives that sit through the host's gap (receive_gap).
///
/// A filter of the means of phases, not of phase_trace: a box filter sees the energy of a bin
/// alone, and of a phase within a bin the mean says all. A longer phase repeats its layers, so that
/// a bin errs by no more than the parts of a layer at its ends, and by what embedding and loss
/// differ from layers. What is shorter than a bin, peaks of sensors and microbatch_swing() tell.
std::vector<StepBin> step_bins(StepModel& model, const CoupledStep& step, size_t device,
                               size_t count);

/// What the HBM of each device draws, mean over the step: without traffic, and for the bytes that
/// it reads and writes (not for their way across the chip). Nothing where data do not say the
/// first.
std::optional<std::vector<Watts>> memory_powers(const StepModel& model, const CoupledStep& step);

/// Temperatures of the devices of a node along a step: [device][bin]; memories where their power
/// is.
struct Ripple {
  std::vector<std::vector<Celsius>> dies, memories;
};
/// In the periodic state: starts from `heat`, simulates the step twice and keeps the second pass.
Ripple ripple(ClusterHeat& heat, size_t node, std::span<const std::vector<StepBin>> devices,
              Seconds bin, std::span<const Watts> memory_power);

}  // namespace triplepoint::sim
