// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/study_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/findings/findings.h"
#include "triplepoint/tui/table_text.h"

namespace triplepoint::study {
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
                                     {"MFU", Align::right, true},
                                     {"J/token"},
                                     {"W"},
                                     {"peak W", Align::right, true},
                                     {"°C"},
                                     {"peak °C", Align::right, true},
                                     {"MHz", Align::right, true},
                                     {"GiB", Align::right, true}};
  if (problems) columns.push_back({"problem", Align::left, true});
  DataTable table = text_table(columns);
  for (const StudyRow& row : study.rows) {
    std::vector<DataCell> cells = cells_of(row);
    if (!problems) cells.pop_back();
    table.add(std::move(cells));
  }
  return tui::table_text(table, console);
}

void print_results(tui::Console& console, const StudyResults& results, const Path& folder) {
  console.print(study_table(console, results.study) + "\n");
  for (const report::Finding& finding : report::find_findings(results.study))
    tui::print_wrapped(console, "- " + finding.text());
  console.print(fmt::format("\n{} jobs ({} from before{}); tables and report in {}\n",
                            results.study.rows.size(), results.reused,
                            results.failed > 0 ? fmt::format(", {} failed", results.failed) : "",
                            (folder / "report.html").string()));
}

}  // namespace triplepoint::study
