// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/base/text.h"

#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::advise {
namespace {

double mhz(Hertz clock) {
  return clock / unit::MHz;
}

template <class T, class Text>
std::string range_text(const std::vector<T>& values, const Text& number) {
  if (values.empty()) return "as it is";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string a = fmt::format("{:.0f}", number(*low)),
                    b = fmt::format("{:.0f}", number(*high));
  return a == b ? a : a + "-" + b;
}

std::string clock_range(const std::vector<Hertz>& clocks) {
  return range_text(clocks, mhz);
}

/// What the devices of one stage have, before and after.
struct StageMeans {
  double clock_before = 0, power_before = 0, power_after = 0;
  std::vector<Hertz> clocks;
};

std::vector<StageMeans> means_of_stages(const spec::Job& job, const ClockPlan& plan,
                                        const ClockPoint* point) {
  const workload::RankGrid grid(job);
  std::vector<StageMeans> stages(plan.stages.size());
  const double share = as_real(stages.size()) / as_real(job.world_size());
  for (int64_t rank = 0; rank < job.world_size(); ++rank) {
    const auto d = as_size(grid.device_of(rank));
    StageMeans& stage = stages[as_size(grid.coordinates(rank).pipeline)];
    stage.clock_before += share * plan.baseline.clock_ratio[d] * mhz(*job.cluster.gpu.max_clock);
    stage.power_before += share * (plan.baseline.device_power[d] / unit::W);
    if (point == nullptr) continue;
    stage.power_after += share * (point->step.device_power[d] / unit::W);
    stage.clocks.push_back(point->clocks[d]);
  }
  return stages;
}

DataTable frontier_table(const ClockPlan& plan) {
  DataTable table;
  table.name = "frontier";
  table.title = "What each point saves and costs";
  table.columns = {{"point", "#"},
                   {"slowdown", "slower %", 0.01, 2},
                   {"saving", "saved %", 0.01, 2},
                   {"gpu_saving", "of GPUs %", 0.01, 2},
                   {"worst_slowdown", "worst %", 0.01, 2},
                   {"saving_machines", "saves on"},
                   {"step_time_s", "step s", 1, 3},
                   {"energy_j", "GPU kJ/step", 1e3, 1},
                   {"power_mean_w", "mean W", 1, 0},
                   {"temperature_peak_c", "peak °C", 1, 1},
                   {"clock_mhz", "locked MHz"},
                   {"cap_w", "or capped W"},
                   {"capped_slowdown", "capped: slower %", 0.01, 2},
                   {"capped_saving", "saved %", 0.01, 2}};
  const auto add = [&](int64_t number, const ClockPoint& point) {
    const JudgedStep& step = point.step;
    table.add({number, point.slowdown, point.saving, point.device_saving, 0 - point.speedups.worst,
               point.savings.gaining, step.time / unit::s, step.device_energy / unit::J,
               step.mean / unit::W, step.hottest.degrees(), clock_range(point.clocks),
               range_text(point.caps, [](Watts cap) { return cap / unit::W; }),
               point.capped_slowdown, point.capped_saving});
  };
  ClockPoint today;
  today.step = plan.baseline;
  add(0, today);
  for (size_t i = 0; i < plan.frontier.size(); ++i)
    add(static_cast<int64_t>(i + 1), plan.frontier[i]);
  return table;
}

DataTable stage_table(const spec::Job& job, const ClockPlan& plan, const ClockPoint* point) {
  DataTable table;
  table.name = "stages";
  table.title = "Stages: what they do today, and what they get";
  table.columns = {{"stage", "stage"},
                   {"worked", "works %", 0.01, 1},
                   {"waited", "waits %", 0.01, 1},
                   {"clock_before_mhz", "MHz today", 1, 0},
                   {"clock_mhz", "locked MHz"},
                   {"power_before_w", "W today", 1, 0},
                   {"power_w", "W then", 1, 0},
                   {"why", "why"}};
  const std::vector<StageMeans> means = means_of_stages(job, plan, point);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageSlack& stage = plan.stages[s];
    double locked = 0;  // mean
    for (const Hertz clock : means[s].clocks)
      locked += mhz(clock) / as_real(means[s].clocks.size());
    const double working = stage.working_clock * mhz(*job.cluster.gpu.max_clock);
    const double lowered = point == nullptr ? 0 : 1 - locked / working;
    DataCell after = Missing{"no setting was chosen"};
    if (point != nullptr) after = means[s].power_after;
    table.add({stage.stage, stage.worked, stage.waited, means[s].clock_before,
               clock_range(means[s].clocks), means[s].power_before, after,
               reason_of(plan, stage, lowered)});
  }
  return table;
}

std::string verdict_of(const spec::Job& job, const ClockPlan& plan, const ClockPoint* point) {
  if (plan.interrupted)
    return "The search was interrupted and concludes nothing; run it again to its end.";
  if (point == nullptr)
    return "Leave the clocks as they are. " + plan.nothing +
           (plan.frontier.empty()
                ? ""
                : fmt::format(" Point 1 saves {:.2f} % at {:.2f} % longer steps (--slowdown).",
                              100 * plan.frontier[0].saving, 100 * plan.frontier[0].slowdown));
  const std::string of_gpus =
      plan.scope == metrics::EnergyScope::gpu
          ? ""
          : fmt::format(" ({:.2f} % of the GPUs)", 100 * point->device_saving);
  const std::string faults = metrics::names_of(job.environment.faults);
  return fmt::format(
      "{}ock the clocks of the stages below: {:.2f} % less energy {}{} at {:.2f} % longer steps, "
      "the mean over {} drawn machines; on the worst of them steps are {:.2f} % longer.",
      faults.empty() ? "L" : fmt::format("Mend the fault {} first. As long as it lasts, l", faults),
      100 * point->saving, metrics::scope_text(plan.scope), of_gpus,
      100 * std::max(0., point->slowdown), point->step.times.size(),
      100 * std::max(0., -point->speedups.worst));
}

Json numbers_of(const spec::Job& job, const ClockPlan& plan, const ClockPoint* chosen) {
  Json json = {{"model", job.model.name},
               {"cluster", job.cluster.name},
               {"gpus", job.world_size()},
               {"energy_scope", metrics::energy_scopes[as_size(plan.scope)]}};
  if (plan.interrupted) json["interrupted"] = true;
  if (!plan.nothing.empty()) json["nothing"] = plan.nothing;
  if (chosen == nullptr) return json;
  Json clocks = Json::array(), caps = Json::array();
  for (size_t d = 0; d < chosen->clocks.size(); ++d) {
    clocks.push_back(mhz(chosen->clocks[d]));
    caps.push_back(chosen->caps[d] / unit::W);
  }
  json["chosen"] = {{"slowdown", chosen->slowdown},
                    {"saving", chosen->saving},
                    {"gpu_saving", chosen->device_saving},
                    {"machines", chosen->step.times.size()},
                    {"worst_slowdown", -chosen->speedups.worst},
                    {"device_clock_mhz", clocks},
                    {"device_cap_w", caps}};
  return json;
}

}  // namespace

const ClockPoint* chosen_point(const ClockPlan& plan, double slowdown) {
  if (plan.interrupted) return nullptr;
  const double allowed = std::max(slowdown, schedule_tolerance);
  const ClockPoint* chosen = nullptr;
  for (const ClockPoint& point : plan.frontier)
    if (point.slowdown <= allowed && point.saving > (chosen ? chosen->saving : min_reported_gain))
      chosen = &point;
  return chosen;
}

answers::Document clock_answer(const spec::Job& job, const ClockPlan& plan,
                               const ClockPoint* chosen) {
  answers::Section stages{
      .id = "stages", .title = "Stages", .tables = {stage_table(job, plan, chosen)}};
  if (chosen != nullptr)
    stages.remarks.push_back({fmt::format(
        "Clocks are locked for a whole run (nvidia-smi -lgc); as power caps the same point saves "
        "{:.2f} % at {:.2f} % longer steps.",
        100 * chosen->capped_saving, 100 * std::max(0., chosen->capped_slowdown))});
  return {.kind = "clocks",
          .title = fmt::format("{} on {} x {}", job.name, job.world_size(),
                               upper_case(job.cluster.gpu.name)),
          .facts = fmt::format("Energy saved counts {}.", metrics::scope_text(plan.scope)),
          .verdict = verdict_of(job, plan, chosen),
          .sections = {{.id = "frontier", .title = "Clocks", .tables = {frontier_table(plan)}},
                       std::move(stages)},
          .numbers = numbers_of(job, plan, chosen)};
}

}  // namespace triplepoint::advise
