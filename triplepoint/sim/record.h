// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <optional>

#include "triplepoint/run/bottleneck.h"
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

/// Who makes the others wait in this step, most seconds first: GPUs with a lower clock than their
/// peers, links with less bandwidth, hosts that launch later. Empty where boards, slots and hosts
/// differ as healthy ones do.
///
///   cost = step - step with the same devices at the median of their peers
/// The second step is simulated, so seconds that hide behind something else cost nothing. Peers are
/// the devices of the same stage, or all if a stage has fewer than four. A device is outside the
/// noise if its phases take at least 4 % and 4 robust standard deviations longer than at its peers'
/// clock. The only evidence is what is slow; why is for metrics to say. The model is left as it
/// was.
std::vector<run::Bottleneck> find_bottlenecks(StepModel&, const CoupledStep&);

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
