// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_answer.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/statistics.h"

namespace triplepoint::advise {
namespace {

std::vector<std::string> texts_of(const std::vector<spec::Fault>& faults) {
  std::vector<std::string> texts;
  for (const spec::Fault& fault : faults)
    texts.push_back(spec::to_text(fault));
  return texts;
}

/// Which side was right.
const char* better_side(const SteerOutcome& outcome) {
  if (outcome.fixed.ended.empty() != outcome.steered.ended.empty())
    return outcome.steered.ended.empty() ? "dynamic" : "static";
  if (outcome.moves == 0) return "leave it";
  return outcome.ratio() < 1 ? "dynamic" : "static";
}

/// How each look found both sides.
DataTable looks_table(const spec::Job& job, const SteerOutcome& outcome) {
  const double max_mhz = *job.cluster.gpu.max_clock / unit::MHz;
  DataTable table{.name = "looks", .title = "How each look found both sides"};
  for (const char* key : {"side", "time_s", "step_time_s", "power_w", "temperature_peak_c",
                          "sm_clock_min_mhz", "sm_clock_mean_mhz"})
    table.columns.push_back({key, key});
  for (const auto& [name, side] :
       {std::pair("static", &outcome.fixed), {"dynamic", &outcome.steered}})
    for (const auto& [time, read] : side->looks)
      table.add({name, time / unit::s, read.step_time / unit::s, read.power() / unit::W,
                 read.die_c[read.hottest()], read.clock[read.slowest()] * max_mhz,
                 mean(read.clock) * max_mhz});
  return table;
}

DataTable sides_table(const SteerOutcome& outcome) {
  DataTable table;
  table.name = "sides";
  table.title = "Left alone, and steered";
  table.columns = {{"side", "side"},
                   {"step_time_s", "step s", 1, 3},
                   {"joules_per_step", "GPU kJ/step", 1e3, 1},
                   {"temperature_peak_c", "peak °C", 1, 1},
                   {"energy_delay_js", "energy-delay kJ s", 1e3, 1},
                   {"energy_delay_change", "change %", 0.01, 2},
                   {"moves", "moves"},
                   {"restarts", "restarts"}};
  const auto add = [&](const char* name, const SteerTotals& totals, int64_t moves,
                       int64_t restarts) {
    table.add({name, totals.step_time(), totals.joules_per_step(), totals.hottest.degrees(),
               totals.energy_delay(),
               totals.energy_delay() / outcome.fixed.totals.energy_delay() - 1, moves, restarts});
  };
  add("static", outcome.fixed.totals, 0, 0);
  add("dynamic", outcome.steered.totals, outcome.moves, outcome.restarts);
  return table;
}

DataTable decisions_table(const SteerOutcome& outcome) {
  DataTable table;
  table.name = "decisions";
  table.title = "Both sides begin with " + outcome.initial;
  table.columns = {{.key = "time_s", .title = "s"},
                   {.key = "seen", .title = "seen", .whole = true},
                   {.key = "what", .title = "done"},
                   {.key = "reason", .title = "why", .whole = true},
                   {.key = "predicted_ratio", .title = "ratio", .digits = 3, .optional = 1},
                   {.key = "setting", .title = "then", .optional = 8},
                   {.key = "horizon_s", .title = "horizon s", .optional = 7},
                   {.key = "cost_s", .title = "cost s", .optional = 6}};
  for (const Decision& decision : outcome.decisions)
    table.add({decision.time / unit::s, decision.seen,
               decision.move ? decision.move->what : "leave it", decision.reason,
               decision.move ? decision.move->ratio : 1.0, decision.setting,
               decision.horizon / unit::s, decision.cost / unit::s});
  return table;
}

/// ", 0.4 K below its shutdown", where that is near.
std::string margin_text(const spec::Job& job, const SteerTotals& totals) {
  constexpr double near_k = 5;
  const auto& governor = job.cluster.gpu.governor;
  if (!governor || !governor->shutdown_temperature) return "";
  const double margin = governor->shutdown_temperature->degrees() - totals.hottest.degrees();
  if (margin > near_k) return "";
  return fmt::format(" The hottest die then comes within {:.1f} K of its shutdown temperature.",
                     margin);
}

std::string verdict_of(const spec::Job& job, const SteerOutcome& outcome) {
  const SteerSide &fixed = outcome.fixed, &steered = outcome.steered;
  if (!fixed.ended.empty() && !steered.ended.empty())
    return fmt::format("Stop the job or mend the cause: steered as well as left alone, {}.",
                       steered.ended);
  if (!fixed.ended.empty())
    return fmt::format("Steer: left alone, {}; with {} moves it goes on.{}", fixed.ended,
                       outcome.moves, margin_text(job, steered.totals));
  if (!steered.ended.empty())
    return fmt::format("Leave it: it goes on by itself; with {} moves, {}.", outcome.moves,
                       steered.ended);
  if (outcome.moves == 0)
    return "Leave it: the controller found no move that gains." + margin_text(job, fixed.totals);
  const double change = outcome.ratio() - 1;
  if (change < 0 && change > -SteerRules().margin)
    return fmt::format(
        "Leave it: {} moves save {:.1f} % of energy times delay, less than a move "
        "must.{}",
        outcome.moves, -100 * change, margin_text(job, fixed.totals));
  return fmt::format("{}: with {} moves, energy times delay {} by {:.1f} %.{}",
                     change < 0 ? "Steer" : "Leave it", outcome.moves,
                     change < 0 ? "falls" : "grows", 100 * std::abs(change),
                     margin_text(job, change < 0 ? steered.totals : fixed.totals));
}

}  // namespace

answers::Document steer_answer(const spec::Job& job, const SteerOutcome& outcome) {
  return {.kind = "steer",
          .title = job.name,
          .verdict = verdict_of(job, outcome),
          .sections = {{.id = "sides", .tables = {sides_table(outcome)}},
                       {.id = "decisions", .tables = {decisions_table(outcome)}}},
          .numbers = {{"job", job.name},
                      {"faults", texts_of(job.environment.faults)},
                      {"initial_setting", outcome.initial},
                      {"better", better_side(outcome)},
                      {"looks", table_json(looks_table(job, outcome))["rows"]}}};
}

std::string alarm_text(const Alarm& alarm) {
  const auto faults = texts_of(alarm.faults);
  const std::string why = faults.empty()
                              ? "neither heat nor power explains it"
                              : fmt::format("as with --fault {}", fmt::join(faults, " --fault "));
  return fmt::format("{:>8.0f} s  {}\n            {}\n", alarm.time / unit::s, alarm.seen, why);
}

Json alarm_json(const Alarm& alarm) {
  return {{"schema", 1},
          {"time_s", alarm.time / unit::s},
          {"seen", alarm.seen},
          {"faults", texts_of(alarm.faults)}};
}

}  // namespace triplepoint::advise
