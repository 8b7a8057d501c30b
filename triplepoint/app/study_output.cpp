// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/study_output.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/app/sources.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/findings/study_summary.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/store/store.h"

namespace triplepoint::app {
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

Result<void> write_run_pages(const Watch& watch, StudyResults& results, const Path& folder,
                             RunPages which, int threads) {
  const std::vector<std::size_t> rows = rows_to_show(results, which);
  watch.begin("Writing pages", rows.size());
  std::vector<std::string> problems(rows.size());
  parallel_for(rows.size(), threads, [&](std::size_t i) {
    if (const auto written = write_page(results.run_files[rows[i]]); !written)
      problems[i] = written.error().what;
    watch.advance();
  });
  for (const std::string& problem : problems)
    if (!problem.empty()) return error(problem);
  link_run_pages(results, folder);
  return {};
}

std::vector<std::string> warnings_of(const report::Study& study) {
  std::map<std::string, std::vector<std::string>> jobs_of;
  for (const report::StudyRow& row : study.rows)
    for (const spec::Diagnosis& diagnosis : row.diagnoses)
      if (diagnosis.severity == spec::Diagnosis::Severity::warning)
        jobs_of[diagnosis.what].push_back(row.name);
  std::vector<std::string> warnings;
  for (const auto& [what, jobs] : jobs_of)
    warnings.push_back(fmt::format(
        "{}{}: {}", jobs.front(),
        jobs.size() > 1 ? fmt::format(" and {} more", jobs.size() - 1) : std::string(), what));
  return warnings;
}

}  // namespace triplepoint::app
