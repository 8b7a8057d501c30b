// SPDX-License-Identifier: Apache-2.0
// What do heat and clocks do to the jobs of a study?
#include <algorithm>

#include "triplepoint/answers/run_figures.h"
#include "triplepoint/report/findings/findings.h"

namespace triplepoint::report {
namespace {

constexpr std::string_view step = "step_time_s", cold_step = "step_without_heat_s",
                           hot = "temperature_c.hot_mean", cool = "temperature_c.cool_mean",
                           hot_clock = "sm_clock_mhz.hot_mean",
                           cool_clock = "sm_clock_mhz.cool_mean",
                           lost_to_power = "sm_clock_mhz.lost_to_power",
                           lost_to_heat = "sm_clock_mhz.lost_to_temperature";

double ratio_of(const StudyRow& row, std::string_view key, std::string_view over) {
  const auto above = number_at(row, key), below = number_at(row, over);
  return above && below && *below > 0 ? *above / *below : 1;
}

double slot_gap(const StudyRow& row) {
  return number_at(row, hot).value_or(0) - number_at(row, cool).value_or(0);
}

/// A planted fault does to the step what is not laid on heat.
double stretch_by_heat(const StudyRow& row) {
  return has_fault(row) ? 1 : ratio_of(row, step, cold_step);
}

const StudyRow* largest(const Groups& groups, double (*value)(const StudyRow&)) {
  const std::vector<const StudyRow*> rows = all_that_ran(groups);
  const auto most =
      std::ranges::max_element(rows, {}, [&](const StudyRow* row) { return value(*row); });
  return most == rows.end() ? nullptr : *most;
}

}  // namespace

std::optional<Finding> about_slots(const Groups& groups) {
  constexpr double clear_clock_loss = 2e-3;
  const StudyRow* worst = largest(groups, slot_gap);
  if (worst == nullptr || slot_gap(*worst) < answers::least_slot_gap_c) return std::nullopt;
  Finding finding(anchor_of("heat-temperature", *worst));
  finding.say("GPU slots differ in temperature: in ").group_and_name(*worst);
  finding.say(", the hot slots run at ").number(*worst, hot, "°C");
  finding.say(" and the cool ones at ").number(*worst, cool, "°C");
  if (ratio_of(*worst, hot_clock, cool_clock) < 1 - clear_clock_loss)
    finding.say("; their clocks are at ")
        .number(*worst, hot_clock, "", 4)
        .say(" and ")
        .number(*worst, cool_clock, "MHz", 4);
  return std::move(finding.say("."));
}

std::optional<int32_t> gpu_slowed_by_heat(const StudyRow& row) {
  for (const run::Bottleneck& bottleneck : row.metrics->bottlenecks)
    if (bottleneck.cause == run::Cause::heat && bottleneck.of == run::Bottleneck::Of::gpu)
      return bottleneck.who.front();
  return std::nullopt;
}

std::optional<Finding> about_heat(const Groups& groups) {
  constexpr double least_share = 5e-3;       // of the step, that its printed times tell apart
  constexpr double least_throttling = 0.01;  // share of time
  const StudyRow* worst = largest(groups, stretch_by_heat);
  if (worst == nullptr || stretch_by_heat(*worst) < 1 + least_share ||
      !number_at(*worst, lost_to_power) || number_at(*worst, lost_to_heat).value_or(0) < 1)
    return std::nullopt;
  Finding finding(anchor_of("clock", *worst));
  const bool at_limit =
      number_at(*worst, "throttle.software_thermal").value_or(0) >= least_throttling;
  finding.say(at_limit ? "Heat slows the step at the temperature limit: "
                       : "Heat slows the step through leakage under the power cap: ");
  finding.group_and_name(*worst).say(" takes ").number(*worst, step, "s");
  finding.say(" a step, and ").number(*worst, cold_step, "s");
  finding.say(" with every die at inlet temperature; ");
  if (const auto gpu = gpu_slowed_by_heat(*worst))
    finding.say("all wait for ").gpu(*worst, *gpu).say("; ");
  finding.say("on average heat takes ").number(*worst, lost_to_heat, "MHz");
  finding.say(" of the clock and the power cap ").number(*worst, lost_to_power, "MHz");
  return std::move(finding.say("."));
}

}  // namespace triplepoint::report
