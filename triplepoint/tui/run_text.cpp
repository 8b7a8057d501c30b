// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/run_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/report/findings/run_findings.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/document_text.h"
#include "triplepoint/tui/fault_text.h"

namespace triplepoint::tui {
namespace {

std::string heading(const run::Run& run) {
  if (!run.manifest.job) return run.manifest.name;
  const spec::Job& job = *run.manifest.job;
  return fmt::format("{}, batch {}, DP {}, stack {}", answers::title_of(run),
                     job.plan.global_batch_size, job.data_parallel_size(), job.stack.name);
}

std::string verdict_line(const Console& console, const run::Run& run) {
  const std::string memory = answers::memory_text(run);
  if (run.shutdown) return console.styled(run::shutdown_text(run), Style::bad);
  if (memory.empty()) return "memory not known";
  return (run.manifest.fits_memory ? console.styled("fits in memory", Style::good)
                                   : console.styled("out of memory", Style::bad)) +
         ": " + memory;
}

}  // namespace

void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics) {
  console.print(console.styled(heading(run), Style::bold) + "\n");
  console.print(verdict_line(console, run) + "\n\n");
  if (run::has_trained(run)) {
    console.print(key_figures_text(console, answers::key_figures(run, metrics)) + "\n");
    for (const run::Bottleneck& bottleneck : metrics.bottlenecks)
      console.print(wrap(metrics::bottleneck_sentence(bottleneck, metrics.step_time) + " " +
                             metrics::bottleneck_advice(bottleneck),
                         console.abilities().width.value_or(100), "") +
                    "\n\n");
    if (const std::string text = report::limit_not_kept(run, metrics); !text.empty())
      console.print(wrap(text, console.abilities().width.value_or(100)) + "\n\n");
    if (!run.timeline.empty())
      console.print(table_text(answers::stage_table(metrics), console) + "\n");
  }
  if (run::has_trained(run))
    if (const std::string lines = run_sparklines(console, run); !lines.empty())
      console.print(lines + "\n");
  if (!run.memory.empty()) console.print(table_text(answers::memory_table(run), console));
  for (const std::string& note : run.manifest.notes)
    console.print("note: " + note + "\n");
}

std::string run_sparklines(const Console& console, const run::Run& run) {
  constexpr std::size_t taken = 66;  // by name and numbers
  const std::size_t width = console.abilities().width.value_or(100);
  const std::size_t points = std::clamp<std::size_t>(width > taken ? width - taken : 0, 12, 60);
  DataTable table = text_table({{"over time", Align::left},
                                {"mean of GPUs", Align::left},
                                {"begin"},
                                {"end"},
                                {"lowest GPU"},
                                {"highest GPU"}});
  bool any = false;
  for (const answers::Plot& plot : answers::plots_of(run, points)) {
    const auto mean = answers::mean_curve(plot);
    const auto extremes = answers::extremes_of(plot);
    if (mean.size() < 4 || !mean.front() || !mean.back()) continue;
    table.add({plot.unit, sparkline(mean, console.abilities().unicode),
               significant(mean.front(), 4), significant(mean.back(), 4),
               significant(extremes->lowest, 4), significant(extremes->highest, 4)});
    any = true;
  }
  return any ? table_text(table, console) : "";
}

namespace {

using metrics::PowerProfile;

DataTable level_table(const PowerProfile& profile) {
  DataTable table;
  table.name = "power_profile";
  table.title =
      fmt::format("Power over a step of {} s, {}", significant(profile.step / unit::s),
                  profile.of_devices_only ? "GPUs over the supplies' efficiency" : "at the wall");
  table.columns = {{"level", "level"},
                   {"units", "of them"},
                   {"mean_w", "mean kW", 1e3, 2},
                   {"lowest_w", "lowest", 1e3, 2},
                   {"peak_w", "peak", 1e3, 2},
                   {"swing_w", "swing kW", 1e3, 2},
                   {"swing_share", "of peak %", 0.01, 1},
                   {"ramp_up_w_per_s", "ramp up kW/s", 1e3, 1},
                   {"ramp_down_w_per_s", "down kW/s", 1e3, 1},
                   {"coincidence", "coincidence", 1, 3}};
  for (const metrics::PowerLevel& level : profile.levels)
    table.add({level.name, level.units, level.mean / unit::W, level.lowest / unit::W,
               level.highest / unit::W, level.swing() / unit::W, level.swing() / level.highest,
               level.ramp_up_w_per_s, level.ramp_down_w_per_s, level.coincidence});
  return table;
}

std::string smoothing_text(const PowerProfile& profile) {
  const metrics::Smoothing& s = profile.smoothing;
  if (profile.levels.back().swing() <= s.allowed_swing)
    return fmt::format(
        "Smoothing: a battery or capacitors of {} kJ and {} kW make their power flat. It swings by "
        "no "
        "more than the allowed {} kW: no floor and no stagger are needed.",
        significant(s.storage / unit::kJ), significant(s.storage_power / unit::kW),
        significant(s.allowed_swing / unit::kW));
  return fmt::format(
      "Smoothing: a battery or capacitors of {} kJ and {} kW make their power flat. To swing by no "
      "more than {} kW: a floor of {} kW burns {} kJ a step ({:.1f} % of its energy); nodes that "
      "begin one after the other over {} s swing by {} kW{} (steps may get that much longer).",
      significant(s.storage / unit::kJ), significant(s.storage_power / unit::kW),
      significant(s.allowed_swing / unit::kW), significant(s.floor / unit::kW),
      significant(s.floor_energy / unit::kJ), 100 * s.floor_share, significant(s.stagger / unit::s),
      significant(s.staggered_swing / unit::kW), s.stagger_suffices ? "" : ", which is not enough");
}

}  // namespace

void print_power_profile(Console& console, const PowerProfile& profile) {
  console.print("\n" + table_text(level_table(profile), console));
  console.print(wrap(smoothing_text(profile), console.abilities().width.value_or(100), "  ") +
                "\n");
}

void print_results(Console& console, const flags::JobResults& results) {
  print_run(console, results.run, results.metrics);
  if (const std::string fitting = flags::flags_that_fit(results); !fitting.empty())
    print_wrapped(console,
                  fmt::format("It fits with {}; triplepoint plan finds the fastest plan that fits.",
                              fitting));
  print_faults(console, results.run, results.fault_free ? &*results.fault_free : nullptr);
  if (results.profile) print_power_profile(console, *results.profile);
  if (results.bill)
    console.print("\nBill: " + metrics::bill_text(*results.bill, results.rates) + "." +
                  answers::likely_bill_text(*results.bill,
                                            results.metrics.step_time.value_or(Seconds()) / unit::s,
                                            answers::interval_of(results.run)) +
                  "\n");
}

}  // namespace triplepoint::tui
