// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/answers/figures.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// A chart of every GPU in every job, and its numbers, which are too many for the markup.
struct DeviceMap {
  Drawing figure;
  HeatMap map;
};

/// Temperature, power, clock, throttling and traffic of every GPU in every job of the group, the
/// paper's figures 5 and 17: nodes apart from each other, on top the mean over the jobs and the
/// mean of each slot. More GPUs than columns are shown by the mean of their nodes.
std::vector<DeviceMap> device_maps(const Group& group);

/// The numbers of a map as the page's script reads them.
Json compact_table(const HeatMap& map);

/// One line per layout over the microbatch sizes it was run with, the paper's figure 13; nothing
/// without a sweep.
std::vector<Drawing> microbatch_figures(const Group& group);
std::vector<LegendEntry> microbatch_legend(const Group& group);

/// How much of the links' bandwidth each job uses over its step, inside and between nodes, and in
/// messages of what size; nothing where no job knows.
std::vector<Drawing> link_figures(const Group& group);

/// One chart each, with a bar per job of the group: the paper's figures 4 and 8.
std::vector<Drawing> speed_figures(const Group& group);
std::vector<Drawing> heat_figures(const Group& group);  // power, temperature, clock
/// Time below the requested clock, by reason.
Drawing throttle_figure(const Group& group);

/// A bar of each job, by layout: its label, why it has no value, and what `fill` adds of it.
std::vector<Bar> job_bars(const Group& group,
                          const std::function<void(const StudyRow&, Bar&)>& fill);

/// The colours of variants.
std::vector<LegendEntry> variant_legend(const Group& group);

/// Kernel seconds by class, as the MICRO'25 paper's figures 3 and 10 stack them.
Drawing kernel_figure(const Group& group);
/// The same by pipeline stage, one job per layout: the paper's figure 15. No bars, no figure.
std::vector<Drawing> stage_figures(const Group& group);
/// Memory of each job's fullest stage, against what the device has.
Drawing memory_figure(const Group& group);

/// The jobs that no other job of the group beats in speed without taking more energy, or in energy
/// without being slower; fastest first. A slower job must save half a per cent to be a choice.
std::vector<const StudyRow*> pareto_front(const Group& group);

/// Speed against energy, peak temperature as colour; nothing where energy is not known.
std::optional<Drawing> pareto_figure(const Group& group);

using answers::Point;
using answers::ScatterChart;
std::string scatter_chart_svg(const ScatterChart& chart);

}  // namespace triplepoint::report
