// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/run_text.h"

#include <algorithm>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/answers/run_objects.h"
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

constexpr size_t sparkline_width = 60;

std::string step_line(const Console& console, const run::Run& run) {
  if (run.steps.size() < 2 || run.manifest.job->environment.faults.empty()) return "";
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

}  // namespace

void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics,
               const run::Run* fault_free) {
  console.print(console.styled(heading(run), Style::bold) + "\n");
  if (const auto [words, numbers, style] = answers::run_verdict(run); !words.empty())
    console.print(console.styled(words, style) + numbers + "\n");
  console.print("\n");
  if (run::has_trained(run)) {
    console.print(key_figures_text(console, answers::key_figures(run, metrics)));
    print_section(console, {.remarks = answers::run_findings(run, metrics, fault_free)});
    console.print("\n");
    if (!run.timeline.empty())
      console.print(table_text(answers::stage_table(run, metrics), console) + "\n");
  }
  if (run::has_trained(run))
    if (const std::string lines = run_sparklines(console, run); !lines.empty())
      console.print(lines + "\n");
  if (!run.memory.empty()) console.print(table_text(answers::memory_table(run), console));
  for (const std::string& note : answers::notes_of(run))
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
  const run::Run* fault_free = results.fault_free ? &*results.fault_free : nullptr;
  print_run(console, results.run, results.metrics, fault_free);
  if (const auto fitting = flags::flags_that_fit(results); !fitting.flags.empty())
    print_wrapped(console,
                  fitting.text() + (metrics::is_inference(results.run)
                                        ? "."
                                        : "; triplepoint plan finds the fastest plan that fits."));
  if (answers::Section faults = answers::faults_section(results.run, fault_free);
      !faults.tables.empty())
    print_section(console, faults);
  console.print(step_line(console, results.run));
  if (results.profile) print_section(console, answers::power_section(*results.profile));
  if (results.bill)
    console.print("\nBill: " + metrics::bill_text(*results.bill, results.rates) + "." +
                  answers::likely_bill_text(*results.bill,
                                            results.metrics.step_time.value_or(Seconds()) / unit::s,
                                            answers::interval_of(results.run)) +
                  "\n");
}

}  // namespace triplepoint::tui
