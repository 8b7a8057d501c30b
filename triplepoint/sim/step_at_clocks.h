// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <stdexcept>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/sim/simulate_schedule.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// Clocks of all devices; equal choices give an equal step.
struct ClockState {
  std::vector<std::vector<DevicePhase>> devices;  // [device][phase use of its stage]
  std::vector<double> heat_ceiling;  // [device]: clock steps below the maximum; 0: heat allows all
};

/// When a governor that has gone down a clock step goes up again: as soon as power allows it; where
/// it would still allow it with the die a little warmer, which the higher clock will make it;
/// never.
enum class Hysteresis { none, some, only_down };

/// What power alone allows at these die temperatures (unused where devices have no power model).
ClockState choose_clocks(StepModel&, std::span<const Celsius> die);

/// Chooses again for the devices whose die has left the temperatures of their choice, or whose heat
/// ceiling is another. By device, whether its clocks have changed.
std::vector<char> update_clocks(StepModel&, std::span<const Celsius> die,
                                std::span<const double> heat_ceiling, Hysteresis, ClockState&);

/// The mean powers of the phases at other temperatures than those they were chosen at.
void set_phase_powers(StepModel&, std::span<const Celsius> die, ClockState&);

/// Under what the phases of one device are chosen.
struct DeviceConditions {
  size_t device = 0;
  Celsius die;
  double heat_ceiling = 0;
  Hysteresis hysteresis = Hysteresis::none;
};
/// The phases of one device; `before`: its last choice, which is kept where it still holds.
std::vector<DevicePhase> choose_phases(StepModel&, const DeviceConditions&,
                                       const std::vector<DevicePhase>* before);

/// A time line counts nanoseconds in 64 bits, and a run has many steps.
inline constexpr Seconds longest_step = 1e6 * unit::s;

/// Each number of the job is possible; together they give a step beyond every time line.
struct StepTooLong : std::runtime_error {
  explicit StepTooLong(Seconds step)
      : std::runtime_error(fmt::format(
            "a step would take {:.3g} s ({:g} s at most are simulated); check the times "
            "and rates of the cluster, the GPU and the stack",
            step / unit::s, longest_step / unit::s)) {}
};

/// One step simulated at given clocks.
struct StepTimeline {
  std::vector<std::vector<StageTimeline>> pipelines;  // [pipeline][stage]
  std::vector<std::vector<StepEpilogue>> epilogues;
  std::vector<std::vector<std::vector<Seconds>>>
      phase_durations;  // [pipeline][stage][phase use]: of the lockstep group
  Seconds step_time;
};

/// Throws StepTooLong.
StepTimeline simulate_step(StepModel&, const ClockState&);

/// From a step simulated before under the same conditions: only pipelines with other durations, and
/// those that meet them on links, are simulated again. The same bits. By pipeline, whether it was
/// simulated.
std::vector<char> update_schedule(StepModel&, const ClockState&, StepTimeline& step);

}  // namespace triplepoint::sim
