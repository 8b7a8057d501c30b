// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/sim/clock_choice.h"
#include "triplepoint/sim/simulate_schedule.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// One step simulated at given clocks.
struct StepTimeline {
  std::vector<std::vector<StageTimeline>> pipelines;  // [pipeline][stage]
  std::vector<std::vector<StepEpilogue>> epilogues;
  std::vector<std::vector<std::vector<Seconds>>>
      phase_durations;  // [pipeline][stage][phase use]: of the lockstep group
  Seconds step_time;
};

StepTimeline simulate_step(StepModel&, const ClockState&);

/// From a step simulated before under the same conditions: only pipelines with other durations, and
/// those that meet them on links, are simulated again. The same bits. By pipeline, whether it was
/// simulated.
std::vector<char> update_schedule(StepModel&, const ClockState&, StepTimeline& step);

}  // namespace triplepoint::sim
