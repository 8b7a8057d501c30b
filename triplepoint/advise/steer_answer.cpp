// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/steer.h"

namespace triplepoint::advise {
namespace {

std::vector<std::string> texts_of(const std::vector<spec::Fault>& faults) {
  return mapped(faults, [](const spec::Fault& fault) { return spec::to_text(fault); });
}

/// Which side to take: "dynamic" where steering gains what a move must, "static" where it loses,
/// "leave it" between, "neither" where heat ends both.
std::string better_side(const SteerOutcome& outcome) {
  const bool fixed = outcome.fixed.ended.empty(), steered = outcome.steered.ended.empty();
  if (!fixed && !steered) return "neither";
  if (fixed != steered) return steered ? "dynamic" : "static";
  const double change = outcome.ratio() - 1;
  if (outcome.moves == 0 || std::abs(change) < SteerRules().margin) return "leave it";
  return change < 0 ? "dynamic" : "static";
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

std::string_view scope_name(const SteerOutcome& outcome) {
  return metrics::energy_scopes[as_size(outcome.scope)];
}

DataTable sides_table(const SteerOutcome& outcome) {
  DataTable table;
  table.name = "sides";
  table.title = "Left alone, and steered";
  table.columns = {
      {"side", "side"},
      {"step_time_s", "step s", 1, 3},
      {"joules_per_step", "kJ/step " + std::string(metrics::scope_text(outcome.scope)), 1e3, 1},
      {.key = "gpu_joules_per_step",
       .title = "GPU kJ/step",
       .scale = 1e3,
       .digits = 1,
       .optional = 1},
      {"temperature_peak_c", "peak °C", 1, 1},
      {"energy_delay_js", "energy-delay kJ s", 1e3, 1},
      {"energy_delay_change", "change %", 0.01, 2},
      {"moves", "moves"},
      {"restarts", "restarts"}};
  const auto add = [&](const char* name, const SteerTotals& totals, int64_t moves,
                       int64_t restarts) {
    if (totals.steps == 0 || outcome.fixed.totals.steps == 0) {
      table.rows.emplace_back(table.columns.size(), Missing{"interrupted before the first step"});
      table.rows.back()[0] = name;
      return;
    }
    table.add({name, totals.step_time(), totals.joules_per_step(),
               totals.device_energy / unit::J / totals.steps, totals.hottest.degrees(),
               totals.energy_delay(),
               totals.energy_delay() / outcome.fixed.totals.energy_delay() - 1, moves, restarts});
  };
  add("static", outcome.fixed.totals, 0, 0);
  add("dynamic", outcome.steered.totals, outcome.moves, outcome.restarts);
  if (outcome.scope != metrics::EnergyScope::gpu) return table;
  constexpr std::ptrdiff_t of_gpus = 3;  // as the column before says already
  table.columns.erase(table.columns.begin() + of_gpus);
  for (auto& row : table.rows)
    row.erase(row.begin() + of_gpus);
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

/// How near to its shutdown the hottest die comes, where that is near; and the other side with it.
std::string margin_text(const spec::Job& job, const SteerTotals& totals,
                        const SteerTotals* other = nullptr) {
  constexpr double near_k = 5;
  const auto& governor = job.cluster.gpu.governor;
  if (!governor || !governor->shutdown_temperature) return "";
  const auto margin_of = [&](const SteerTotals& of) {
    return governor->shutdown_temperature->degrees() - of.hottest.degrees();
  };
  const double margin = margin_of(totals);
  if (margin > near_k) return "";
  const bool both = other && margin_of(*other) <= near_k;
  return fmt::format(" {} comes within {:.1f} K of its shutdown temperature.",
                     both ? "Either way the hottest die" : "The hottest die then",
                     both ? std::max(margin, margin_of(*other)) : margin);
}

std::string moves_text(const SteerOutcome& outcome) {
  return fmt::format("{} move{}", outcome.moves, outcome.moves == 1 ? "" : "s");
}

std::string verdict_of(const spec::Job& job, const SteerOutcome& outcome) {
  const SteerSide &fixed = outcome.fixed, &steered = outcome.steered;
  if (outcome.interrupted)
    return "The simulation was interrupted and concludes nothing; run it again to its end, or with "
           "a shorter --duration.";
  if (!fixed.ended.empty() && !steered.ended.empty())
    return fmt::format("Stop the job or mend the cause: steered as well as left alone, {}.",
                       steered.ended);
  if (!fixed.ended.empty())
    return fmt::format("Steer: left alone, {}; with {} it goes on.{}", fixed.ended,
                       moves_text(outcome), margin_text(job, steered.totals));
  if (!steered.ended.empty())
    return fmt::format("Leave it: it goes on by itself; with {}, {}.", moves_text(outcome),
                       steered.ended);
  if (outcome.moves == 0)
    return "Leave it: the controller found no move that gains." +
           margin_text(job, fixed.totals, &steered.totals);
  const double change = outcome.ratio() - 1;
  if (std::abs(change) < SteerRules().margin)
    return fmt::format(
        "Leave it: {} would change energy {} times delay by {:+.1f} %, less than a move must gain."
        "{}",
        moves_text(outcome), metrics::scope_text(outcome.scope), 100 * change,
        margin_text(job, fixed.totals, &steered.totals));
  const bool steers = change < 0;
  const double longer = steered.totals.step_time() / fixed.totals.step_time() - 1;
  return fmt::format("{}: with {}, energy {} times delay {} by {:.1f} %{}.{}",
                     steers ? "Steer" : "Leave it", moves_text(outcome),
                     metrics::scope_text(outcome.scope), steers ? "falls" : "grows",
                     100 * std::abs(change),
                     longer < 1e-3 ? "" : fmt::format("; steps are {} longer", percent(longer)),
                     steers ? margin_text(job, steered.totals, &fixed.totals)
                            : margin_text(job, fixed.totals, &steered.totals));
}

}  // namespace

answers::Document steer_answer(const spec::Job& job, const SteerOutcome& outcome) {
  const std::vector<std::string> notes = spec::assumptions_of(job);
  answers::Section assumptions{.id = "assumptions"};
  for (const std::string& note : notes)
    assumptions.remarks.push_back({note, answers::Remark::Kind::note});
  return {.kind = "steer",
          .title = job.name,
          .verdict = verdict_of(job, outcome),
          .sections = {{.id = "sides", .tables = {sides_table(outcome)}},
                       {.id = "decisions", .tables = {decisions_table(outcome)}},
                       std::move(assumptions)},
          .numbers = {{"job", job.name},
                      {"faults", texts_of(job.environment.faults)},
                      {"initial_setting", outcome.initial},
                      {"better", outcome.interrupted ? Json() : Json(better_side(outcome))},
                      {"energy_scope", scope_name(outcome)},
                      {"notes", notes},
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
