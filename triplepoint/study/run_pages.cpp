// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/run_pages.h"

#include <algorithm>
#include <filesystem>

#include "triplepoint/base/parallel.h"

#include "triplepoint/run/store.h"

#include "triplepoint/report/findings/recommendations.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/study/job_results.h"
#include "triplepoint/study/sources.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::study {
namespace {

bool is_there(const Path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

std::vector<std::size_t> rows_to_show(const StudyResults& results, RunPages which) {
  std::vector<std::size_t> rows;
  if (which == RunPages::best) rows = best_rows(results.study);
  for (std::size_t i = 0; which == RunPages::all && i < results.study.rows.size(); ++i)
    rows.push_back(i);
  std::erase_if(rows, [&](std::size_t i) {
    const Path& run = results.run_files[i];
    return run.empty() || is_there(page_of(run));
  });
  return rows;
}

Result<void> write_page(const Path& run_file) {
  const run::Run run = TPT_TRY(run::load(run_file.string()));
  const metrics::Metrics metrics = metrics::measure(run);
  const std::string page =
      report::run_page(run, metrics, numbers_of(run), run_lifetime_use(run, metrics));
  return write_file_atomically(page_of(run_file), page);
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
        is_there(page) ? page.lexically_relative(folder).generic_string() : std::string();
  }
}

}  // namespace triplepoint::study
