// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/run_text.h"

#include <algorithm>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"
#include "triplepoint/spec/fault.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/report/findings/run_findings.h"
#include "triplepoint/tui/document_text.h"

namespace triplepoint::tui {
namespace {

std::string heading(const run::Run& run) {
  if (!run.manifest.job) return run.manifest.name;
  const spec::Job& job = *run.manifest.job;
  return fmt::format("{}, batch {}, DP {}, stack {}{}", answers::title_of(run),
                     job.plan.global_batch_size, job.data_parallel_size(), job.stack.name,
                     answers::network_label(job));
}

std::string verdict_line(const Console& console, const run::Run& run) {
  const std::string memory = answers::memory_text(run);
  if (run.shutdown) return console.styled(run::shutdown_text(run), Style::bad);
  if (memory.empty()) return "memory not known";
  return (run.manifest.fits_memory ? console.styled("fits in memory", Style::good)
                                   : console.styled("out of memory", Style::bad)) +
         ": " + memory;
}

using metrics::FaultEffect;

constexpr size_t most_listed_gpus = 8;
constexpr size_t sparkline_width = 60;

std::string gpu_table(const Console& console, const FaultEffect& effect, bool steady) {
  const std::vector<metrics::DeviceSpan>& baseline =
      effect.devices_before.empty() ? effect.devices_after : effect.devices_before;
  const char* other = steady ? "without" : effect.devices_before.empty() ? "after" : "before";
  DataTable table =
      titled_table({"GPU", fmt::format("W {}", other), steady ? "W with" : "W during",
                    fmt::format("°C {}", other), steady ? "°C with" : "°C during",
                    fmt::format("MHz {}", other), steady ? "MHz with" : "MHz during"});
  table.title = "GPUs that change most";
  for (const int64_t device : metrics::most_affected(effect, most_listed_gpus)) {
    const auto d = as_size(device);
    const metrics::DeviceSpan &then = baseline[d], &now = effect.devices_during[d];
    table.add({std::to_string(device), significant(then.power_w), significant(now.power_w),
               significant(then.die_c), significant(now.die_c), significant(then.clock_mhz, 4),
               significant(now.clock_mhz, 4)});
  }
  return table_text(table, console);
}

std::string step_line(const Console& console, const run::Run& run) {
  if (run.steps.size() < 2) return "";
  std::vector<std::optional<double>> values;
  const size_t columns = std::min(sparkline_width, run.steps.size());
  double lowest = 1e300, highest = 0;
  for (const run::StepRecord& step : run.steps) {
    lowest = std::min(lowest, (step.end - step.begin) / unit::s);
    highest = std::max(highest, (step.end - step.begin) / unit::s);
  }
  for (size_t c = 0; c < columns; ++c) {  // the longest of those that share a column
    double longest = 0;
    for (size_t s = run.steps.size() * c / columns; s < run.steps.size() * (c + 1) / columns; ++s)
      longest = std::max(longest, (run.steps[s].end - run.steps[s].begin) / unit::s);
    values.emplace_back(longest);
  }
  return fmt::format("\nStep by step, {} to {} s: {}\n", significant(lowest), significant(highest),
                     sparkline(values, console.abilities().unicode));
}

void print_effect(Console& console, const run::Run& run, const std::vector<spec::Fault>& faults,
                  const FaultEffect& effect, bool steady) {
  const std::string name = metrics::names_of(faults);
  console.print(fmt::format("\nFault {}: {}\n", console.styled(name, Style::bold),
                            answers::fault_sentence(run, faults, effect, steady)));
  if (!metrics::most_affected(effect, 1).empty())
    console.print("\n" + gpu_table(console, effect, steady));
}

}  // namespace

void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics) {
  console.print(console.styled(heading(run), Style::bold) + "\n");
  console.print(verdict_line(console, run) + "\n\n");
  if (run::has_trained(run)) {
    console.print(key_figures_text(console, answers::key_figures(run, metrics)) + "\n");
    for (const run::Bottleneck& bottleneck : metrics.bottlenecks)
      console.print(wrap(metrics::bottleneck_sentence(bottleneck, metrics.step_time,
                                                      run::device_numbers(run)) +
                             " " + metrics::bottleneck_advice(bottleneck),
                         console.abilities().width.value_or(100), "") +
                    "\n\n");
    if (const std::string text = report::limit_not_kept(run, metrics); !text.empty())
      console.print(wrap(text, console.abilities().width.value_or(100)) + "\n\n");
    if (!run.timeline.empty())
      console.print(table_text(answers::stage_table(run, metrics), console) + "\n");
  }
  if (run::has_trained(run))
    if (const std::string lines = run_sparklines(console, run); !lines.empty())
      console.print(lines + "\n");
  if (!run.memory.empty()) console.print(table_text(answers::memory_table(run), console));
  for (const std::string& note : run.manifest.notes)
    print_wrapped(console, "note: " + note);
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

void print_results(Console& console, const flags::JobResults& results) {
  print_run(console, results.run, results.metrics);
  if (const auto fitting = flags::flags_that_fit(results); !fitting.flags.empty())
    print_wrapped(console,
                  fitting.text() + (metrics::is_inference(results.run)
                                        ? "."
                                        : "; triplepoint plan finds the fastest plan that fits."));
  print_faults(console, results.run, results.fault_free ? &*results.fault_free : nullptr);
  if (results.profile) print_section(console, answers::power_section(*results.profile));
  if (results.bill)
    console.print("\nBill: " + metrics::bill_text(*results.bill, results.rates) + "." +
                  answers::likely_bill_text(*results.bill,
                                            results.metrics.step_time.value_or(Seconds()) / unit::s,
                                            answers::interval_of(results.run)) +
                  "\n");
}

void print_faults(Console& console, const run::Run& run, const run::Run* without) {
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  if (faults.empty() || !run::has_trained(run) || (without && !run::has_trained(*without))) return;
  if (without) {
    print_effect(console, run, faults, metrics::steady_effect(*without, run), true);
  } else {
    const std::vector<FaultEffect> effects = metrics::fault_effects(run);
    for (size_t f = 0; f < faults.size(); ++f)
      print_effect(console, run, {faults[f]}, effects[f], false);
  }
  if (const DataTable phases = answers::phases_table(run, without); !phases.rows.empty())
    console.print("\n" + table_text(phases, console));
  if (!without) console.print(step_line(console, run));
}

}  // namespace triplepoint::tui
