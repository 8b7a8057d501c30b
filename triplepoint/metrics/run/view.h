// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/trace/occupancy.h"

namespace triplepoint::metrics {

/// Whether the job is a pipeline; unknown where neither its plan nor its trace names stages.
enum class Pipeline { unknown, one_stage, stages };

/// What the questions share, gathered once per run. Per-rank vectors count from rank 0.
struct View {
  const run::Run& run;
  run::Timeline clipped;               // filled where the run shows more than its steps
  std::vector<run::StepRecord> steps;  // those the timeline shows in detail
  std::optional<run::Extent> window;   // from the first step's begin to the last one's end
  std::vector<int32_t> ranks;          // those with spans, ascending
  std::vector<int32_t> stage_of_rank;  // -1: unknown
  Pipeline pipeline = Pipeline::unknown;
  std::vector<KernelSeconds> kernels;       // per rank, one step
  std::vector<Occupancy> occupancy;         // per rank, the whole window
  std::vector<run::DeviceSummary> devices;  // in the run's order, holes filled from series

  const run::Timeline& timeline() const { return clipped.empty() ? run.timeline : clipped; }
  double num_steps() const { return steps.empty() ? 1.0 : as_real(steps.size()); }
  Seconds duration() const { return window ? window->end - window->begin : Seconds(); }
};
View look_at(const run::Run&);

/// What each rank's device does in a step, as the mean of the steps that the timeline shows; the
/// mean of these over the ranks is Metrics::parts. Defined in bubble.cpp.
struct RankParts {
  int32_t rank = 0;
  StepParts parts;
};
std::vector<RankParts> step_parts_of_ranks(const run::Run&);

/// What is known of every device, and where it is not, what its series show over the window. Means
/// and peaks over the window, energy per step. Defined in device_readings.cpp.
std::vector<run::DeviceSummary> read_devices(const run::Run&, std::optional<run::Extent> window,
                                             double num_steps,
                                             std::vector<run::DeviceSummary> known);

/// Growth of a counter over one step, one value per device, not-a-number where it does not know;
/// empty if none does. Defined in device_readings.cpp.
std::vector<double> growth_per_step(const View&, std::string_view counter);

/// Share of time with any reason for a clock below the requested one, one value per device,
/// not-a-number where it does not know; empty if none does. Defined in device_readings.cpp.
std::vector<double> throttled_of_devices(const View&);

/// Mean over time and maximum of a signal in the window, one value per device, not-a-number where
/// it does not know; empty if none does. Defined in device_readings.cpp.
struct DeviceStatistics {
  std::vector<double> means, maxima;
};
DeviceStatistics statistics_of_devices(const View&, std::string_view signal);

/// Mean over the devices that know; absent if none does.
std::optional<double> mean_of(const std::vector<run::DeviceSummary>&,
                              std::optional<double> run::DeviceSummary::*field);
std::optional<double> maximum_of(const std::vector<run::DeviceSummary>&,
                                 std::optional<double> run::DeviceSummary::*field);
/// Of all devices; absent if one does not know.
std::optional<double> total_of(const std::vector<run::DeviceSummary>&,
                               std::optional<double> run::DeviceSummary::*field);
/// One value per device, not-a-number where it does not know; empty if none does.
std::vector<double> list_of(const std::vector<run::DeviceSummary>&,
                            std::optional<double> run::DeviceSummary::*field);
/// Mean over all devices; a name that a device does not have counts as zero there.
std::map<std::string, double> mean_by_name(const std::vector<run::DeviceSummary>&,
                                           run::NamedValues run::DeviceSummary::*field);

// One question each; the answer goes into its fields of Metrics.
void answer_speed(const View&, Metrics&);        // energy.cpp
void answer_kernels(const View&, Metrics&);      // bubble.cpp
void answer_overlap(const View&, Metrics&);      // bubble.cpp
void answer_bubble(const View&, Metrics&);       // bubble.cpp
void answer_links(const View&, Metrics&);        // links.cpp
void answer_energy(const View&, Metrics&);       // energy.cpp, after the speed
void answer_temperature(const View&, Metrics&);  // heat.cpp
void answer_bursts(const View&, Metrics&);       // bursts.cpp
void answer_throttle(const View&, Metrics&);     // heat.cpp, after the temperature
void answer_bottlenecks(const View&, Metrics&);  // bottlenecks.cpp, after the speed

}  // namespace triplepoint::metrics
