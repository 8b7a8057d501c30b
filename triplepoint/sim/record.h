// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// A run with everything that is known before a step is simulated: manifest, devices, memory, flop
/// counts.
run::Run start_run(const spec::Job& job, const workload::WorkGraph& graph);

/// What a simulated step meant for each device, as far as the step alone shows: no peaks. Without a
/// power model it is traffic alone; power, energy, heat and clocks are absent, not zero.
void record_summaries(run::Run& run, const StepModel& model, const CoupledStep& step);

/// Above this the course of single boards along a step is left out (its peaks are not), and memory
/// temperature and utilization over time: 100,000 curves are not readable.
inline constexpr size_t most_profiled_devices = 2048;

/// Series of a step that are kept: all; of a transient, which has its own of the devices, the power
/// of the nodes alone; none.
enum class StepSeries { none, nodes, all };

/// What is written of a step beside the summaries of its devices.
struct StepDetail {
  bool timeline = false, causes = true;  // as in Horizon
  StepSeries series = StepSeries::none;
};

/// A value of a simulated series as it is kept: to a thousandth of its unit (1 mW, 0.001 °C, 1
/// kHz), shares to a millionth. NVML resolves 1 mW, 1 °C and 1 MHz; digits below cost space in
/// files (100,000 GPUs x 10 min: 92 MB with all of them) and mean nothing.
inline double rounded_reading(double value) {
  return std::round(value * 1e3) / 1e3;
}
inline double rounded_share(double value) {
  return std::round(value * 1e6) / 1e6;
}

/// Writes one simulated step into the run: device summaries, series, causes, and if the horizon
/// wants it the timeline of the step, which begins at `begin`. Without a power model there are no
/// series.
///
/// Traced are, as in the paper's artifact, the ranks with tensor, context and data index 0: one per
/// stage.
void record_step(run::Run& run, StepModel& model, const CoupledStep& step,
                 std::optional<ClusterHeat> heat, Instant begin, const StepDetail&);

/// Appends the timeline of the traced ranks.
void record_timeline(run::Timeline& timeline, StepModel& model, const CoupledStep& step,
                     Instant begin);

}  // namespace triplepoint::sim
