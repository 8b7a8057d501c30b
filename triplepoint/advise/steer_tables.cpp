// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_tables.h"

#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

namespace triplepoint::advise {
namespace {

using advise::Decision;
using advise::SteerOutcome;
using advise::SteerTotals;

Json totals_json(const SteerTotals& totals) {
  return {{"time_s", totals.time / unit::s},
          {"steps", totals.steps},
          {"step_time_s", totals.step_time()},
          {"energy_j", totals.energy / unit::J},
          {"joules_per_step", totals.joules_per_step()},
          {"energy_delay_js", totals.energy_delay()},
          {"temperature_peak_c", totals.hottest.degrees()}};
}

Json forecast_json(const advise::Forecast& forecast) {
  return {{"step_time_s", forecast.step_time / unit::s},
          {"power_w", forecast.power / unit::W},
          {"temperature_peak_c", forecast.hottest.degrees()}};
}

Json points_json(const std::vector<advise::SteerPoint>& points) {
  Json list = Json::array();
  for (const advise::SteerPoint& point : points)
    list.push_back({{"time_s", point.time / unit::s},
                    {"step_time_s", point.step_time_s ? Json(*point.step_time_s) : Json()},
                    {"power_w", point.power_w},
                    {"temperature_peak_c", point.hottest_c},
                    {"sm_clock_min_mhz", point.lowest_clock_mhz},
                    {"sm_clock_mean_mhz", point.mean_clock_mhz}});
  return list;
}

}  // namespace

std::string verdict_of(const SteerOutcome& outcome, search::Goal goal, double margin) {
  if (outcome.moves == 0)
    return outcome.leaving_was_right(margin) ? "leave it (right)" : "leave it (wrong)";
  return outcome.ratio(goal) < 1 ? "dynamic" : "static";
}

DataTable scenarios_table(const std::vector<SteeredScenario>& all, search::Goal goal,
                          double margin) {
  DataTable table;
  table.name = "scenarios";
  table.title = "Left alone, and steered";
  table.columns = {{"scenario", "scenario"},
                   {"static_step_time_s", "static s", 1, 3},
                   {"dynamic_step_time_s", "dynamic s", 1, 3},
                   {"static_joules_per_step", "static kJ", 1e3, 1},
                   {"dynamic_joules_per_step", "dynamic kJ", 1e3, 1},
                   {"energy_delay_change", "energy-delay %", 0.01, 2},
                   {"objective_change", "objective %", 0.01, 2},
                   {"moves", "moves"},
                   {"restarts", "restarts"},
                   {"better", "better"}};
  for (const SteeredScenario& each : all) {
    const SteerOutcome& outcome = each.outcome;
    table.add({each.name, outcome.fixed.step_time(), outcome.steered.step_time(),
               outcome.fixed.joules_per_step(), outcome.steered.joules_per_step(),
               outcome.ratio(search::Goal::edp) - 1, outcome.ratio(goal) - 1,
               static_cast<int64_t>(outcome.moves), static_cast<int64_t>(outcome.restarts),
               verdict_of(outcome, goal, margin)});
  }
  return table;
}

Json decision_json(const Decision& decision) {
  Json considered = Json::array();
  for (const advise::Considered& each : decision.considered)
    considered.push_back({{"move", advise::name_of(each.candidate.kind)},
                          {"what", each.candidate.what},
                          {"setting", each.setting},
                          {"predicted_ratio", each.ratio},
                          {"forecast", forecast_json(each.forecast)}});
  return {{"time_s", decision.time / unit::s},
          {"move", advise::name_of(decision.kind)},
          {"action", decision.action},
          {"seen", decision.seen},
          {"reason", decision.reason},
          {"setting", decision.setting},
          {"predicted_ratio", decision.ratio},
          {"horizon_s", decision.horizon / unit::s},
          {"cost_s", decision.cost / unit::s},
          {"leave", forecast_json(decision.leave)},
          {"then", forecast_json(decision.then)},
          {"considered", considered}};
}

Json scenario_json(const SteeredScenario& scenario, search::Goal goal, double margin) {
  const SteerOutcome& outcome = scenario.outcome;
  Json json = {{"scenario", scenario.name},
               {"about", scenario.about},
               {"initial_setting", outcome.initial},
               {"static", totals_json(outcome.fixed)},
               {"dynamic", totals_json(outcome.steered)},
               {"energy_delay_ratio", outcome.ratio(search::Goal::edp)},
               {"objective_ratio", outcome.ratio(goal)},
               {"moves", outcome.moves},
               {"restarts", outcome.restarts},
               {"better", verdict_of(outcome, goal, margin)}};
  json["decisions"] = Json::array();
  for (const Decision& decision : outcome.decisions)
    json["decisions"].push_back(decision_json(decision));
  json["checked"] = Json::array();
  for (const advise::Checked& checked : outcome.checked)
    json["checked"].push_back({{"what", checked.what}, {"ratio", checked.ratio}});
  json["static_points"] = points_json(outcome.fixed_points);
  json["dynamic_points"] = points_json(outcome.steered_points);
  return json;
}

Json steering_json(const std::string& job, const std::vector<SteeredScenario>& all,
                   const SteerOptions& options) {
  Json json = {{"schema", 1},
               {"job", job},
               {"duration_s", options.duration / unit::s},
               {"objective", name_of(options.goal)},
               {"scenarios", Json::array()}};
  for (const SteeredScenario& each : all)
    json["scenarios"].push_back(scenario_json(each, options.goal, options.rules.margin));
  return json;
}

}  // namespace triplepoint::advise
