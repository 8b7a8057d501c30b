// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/study_output.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/study_summary.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/report/pages/score_section.h"
#include "triplepoint/search/neighbours.h"
#include "triplepoint/store/store.h"
#include "triplepoint/study/sources.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/fault_text.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/tui/run_text.h"

namespace triplepoint::study {
namespace {

std::vector<std::size_t> rows_to_show(const StudyResults& results, RunPages which) {
  std::vector<std::size_t> rows;
  if (which == RunPages::best) rows = best_rows(results.study);
  for (std::size_t i = 0; which == RunPages::all && i < results.study.rows.size(); ++i)
    rows.push_back(i);
  std::erase_if(rows, [&](std::size_t i) {
    const Path& run = results.run_files[i];
    return run.empty() || path_exists(page_of(run));
  });
  return rows;
}

Result<void> write_page(const Path& run_file) {
  const run::Run run = TPT_TRY(run::load(run_file.string()));
  const metrics::Metrics metrics = metrics::measure(run);
  return write_file_atomically(page_of(run_file), report::run_page(run, metrics, numbers_of(run)));
}

}  // namespace

Path page_of(Path run_file) {
  return run_file.replace_extension(".html");
}

std::vector<std::size_t> best_rows(const report::Study& study) {
  std::vector<std::size_t> rows;
  for (const report::Group& group : report::groups_of(study)) {
    const report::Answers answers = report::answers_for(group);
    for (const report::StudyRow* row : {answers.fastest, answers.thriftiest, answers.hottest})
      if (row != nullptr) rows.push_back(static_cast<std::size_t>(row - study.rows.data()));
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Result<void> write_run_pages(StudyResults& results, const Path& folder, RunPages which, int threads,
                             const std::function<void()>& finished) {
  const std::vector<std::size_t> rows = rows_to_show(results, which);
  std::vector<std::string> problems(rows.size());
  parallel_for(rows.size(), threads, [&](std::size_t i) {
    if (const auto written = write_page(results.run_files[rows[i]]); !written)
      problems[i] = written.error().what;
    finished();
  });
  for (const std::string& problem : problems)
    if (!problem.empty()) return error(problem);
  link_run_pages(results, folder);
  return {};
}

Result<void> write_run_pages(tui::Console& console, StudyResults& results, const Path& folder,
                             RunPages which, int threads) {
  const std::size_t most = which == RunPages::all    ? results.study.rows.size()
                           : which == RunPages::best ? best_rows(results.study).size()
                                                     : 0;
  tui::Progress progress(console, "Writing pages", most);
  return write_run_pages(results, folder, which, threads, [&progress] { progress.advance(); });
}

void link_run_pages(StudyResults& results, const Path& folder) {
  for (std::size_t i = 0; i < results.study.rows.size(); ++i) {
    if (results.run_files[i].empty()) continue;
    const Path page = page_of(results.run_files[i]);
    results.study.rows[i].page =
        path_exists(page) ? page.lexically_relative(folder).generic_string() : std::string();
  }
}

namespace {

using report::StudyRow;
using report::Verdict;

tui::Style style_of(Verdict verdict) {
  return verdict == Verdict::ok                                    ? tui::Style::good
         : verdict == Verdict::oom || verdict == Verdict::shutdown ? tui::Style::bad
                                                                   : tui::Style::warning;
}

/// A job whose measurement failed was valid.
std::string verdict_of(const StudyRow& row) {
  const bool failed = row.verdict == Verdict::invalid && row.origin == run::Origin::measured;
  return failed ? "failed" : std::string(name_of(row.verdict));
}

std::string first_error(const StudyRow& row) {
  for (const spec::Diagnosis& diagnosis : row.diagnoses)
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return diagnosis.what;
  return "";
}

std::vector<DataCell> cells_of(const StudyRow& row) {
  const auto of = [&](auto member, int digits) {
    return row.metrics ? significant((*row.metrics).*member, digits) : std::string();
  };
  using metrics::Metrics;
  const auto stage = report::worst_stage(row);
  return {
      row.name,
      {verdict_of(row), style_of(row.verdict)},
      row.metrics && row.metrics->step_time ? significant(*row.metrics->step_time / unit::s) : "",
      of(&Metrics::tokens_per_second, 4),
      row.metrics && row.metrics->mfu ? percent(*row.metrics->mfu) : "",
      of(&Metrics::joules_per_token, 3),
      of(&Metrics::power_mean_w, 3),
      of(&Metrics::power_peak_w, 3),
      of(&Metrics::temperature_mean_c, 3),
      of(&Metrics::temperature_peak_c, 3),
      of(&Metrics::sm_clock_mean_mhz, 4),
      stage ? significant(row.memory[*stage].total() / unit::GiB) : "",
      first_error(row)};
}

}  // namespace

std::string study_table(const tui::Console& console, const report::Study& study) {
  const bool problems = std::any_of(study.rows.begin(), study.rows.end(), [](const StudyRow& row) {
    return row.verdict == Verdict::invalid;
  });
  std::vector<TextColumn> columns = {{"job", Align::left},
                                     {"verdict", Align::left},
                                     {"step s"},
                                     {"tokens/s"},
                                     {"MFU", Align::right, 1},
                                     {"J/token"},
                                     {"W"},
                                     {"peak W", Align::right, 1},
                                     {"°C"},
                                     {"peak °C", Align::right, 1},
                                     {"MHz", Align::right, 1},
                                     {"GiB", Align::right, 1}};
  if (problems) columns.push_back({"problem", Align::left, 1});
  DataTable table = text_table(columns);
  for (const StudyRow& row : study.rows) {
    std::vector<DataCell> cells = cells_of(row);
    if (!problems) cells.pop_back();
    table.add(std::move(cells));
  }
  return tui::table_text(table, console);
}

void print_warnings(tui::Console& console, const report::Study& study) {
  std::map<std::string, std::vector<std::string>> jobs_of;
  for (const StudyRow& row : study.rows)
    for (const spec::Diagnosis& diagnosis : row.diagnoses)
      if (diagnosis.severity == spec::Diagnosis::Severity::warning)
        jobs_of[diagnosis.what].push_back(row.name);
  for (const auto& [what, jobs] : jobs_of)
    console.warn(fmt::format(
        "triplepoint: {}{}: {}\n", jobs.front(),
        jobs.size() > 1 ? fmt::format(" and {} more", jobs.size() - 1) : std::string(), what));
}

void print_results(tui::Console& console, const StudyResults& results, const Path& folder) {
  console.print(study_table(console, results.study) + "\n");
  if (const auto& score = results.study.score) {
    console.print(tui::table_text(report::score_table(*score), console) + "\n");
    for (const std::string& sentence : report::score_sentences(*score))
      tui::print_wrapped(console, "- " + sentence);
  }
  for (const report::Finding& finding : report::find_findings(results.study))
    tui::print_wrapped(console, "- " + finding.text());
  console.print(fmt::format("\n{} jobs ({} from before{}); tables and report in {}\n",
                            results.study.rows.size(), results.reused,
                            results.failed > 0 ? fmt::format(", {} failed", results.failed) : "",
                            (folder / "report.html").string()));
}

namespace {

/// Flags with which a job that is out of memory fits; empty if it fits or none are found.
std::string flags_that_fit(const run::Run& run) {
  if (run.manifest.fits_memory || !run.manifest.job) return "";
  const auto fits = search::nearest_that_fits(*run.manifest.job);
  return fits ? search::flags_between(*run.manifest.job, *fits) : "";
}

const run::Run* fault_free(const JobResults& results) {
  return results.fault_free ? &*results.fault_free : nullptr;
}

}  // namespace

Json results_json(const JobResults& results) {
  Json json = {{"schema", results_schema}};
  json.update(answers::results_json(results.run, results.metrics));
  json["diagnoses"] = as_json(spec::diagnose(*results.run.manifest.job));
  if (results.step_time) {
    json["step_time_low_s"] = results.step_time->low;
    json["step_time_high_s"] = results.step_time->high;
  }
  if (const std::string flags = flags_that_fit(results.run); !flags.empty())
    json["fits_with"] = flags;
  if (results.profile) json["power_profile"] = metrics::power_profile_json(*results.profile);
  if (results.bill) json["bill"] = metrics::bill_json(*results.bill, results.rates);
  if (!results.run.manifest.job->environment.faults.empty())
    json["faults"] = metrics::faults_json(results.run, fault_free(results));
  return json;
}

void print_results(tui::Console& console, const JobResults& results) {
  tui::print_run(console, results.run, results.metrics, results.step_time);
  if (const std::string flags = flags_that_fit(results.run); !flags.empty())
    tui::print_wrapped(
        console,
        fmt::format("It fits with {}; triplepoint plan finds the fastest plan that fits.", flags));
  tui::print_faults(console, results.run, fault_free(results));
  if (results.profile) tui::print_power_profile(console, *results.profile);
  if (results.bill)
    console.print("\nBill: " + metrics::bill_text(*results.bill, results.rates) + "\n");
}

}  // namespace triplepoint::study
