// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/item.h"

#include <algorithm>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/expect.h"
#include "triplepoint/base/version.h"

#include "triplepoint/metrics/run/results_json.h"
#include "triplepoint/report/findings/conditions.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/report/summary.h"
#include "triplepoint/study/job_results.h"

namespace triplepoint::study {
namespace {

constexpr int results_schema = 2;  // docs/formats.md says what changed

std::string as_text(const std::vector<spec::Diagnosis>& diagnoses) {
  std::string text;
  for (const spec::Diagnosis& diagnosis : diagnoses)
    text += (text.empty() ? "" : "; ") + diagnosis.what;
  return text;
}

std::string& cell_named(std::vector<std::string>& cells, std::string_view name) {
  const std::vector<std::string> columns = metrics::results_columns();
  const auto column = std::find(columns.begin(), columns.end(), name);
  TPT_EXPECT(column != columns.end());
  return cells[static_cast<std::size_t>(column - columns.begin())];
}

}  // namespace

Json as_json(const std::vector<spec::Diagnosis>& diagnoses) {
  Json json = Json::array();
  for (const spec::Diagnosis& diagnosis : diagnoses) {
    json.push_back(
        {{"code", spec::name_of(diagnosis.code)},
         {"severity", diagnosis.severity == spec::Diagnosis::Severity::error ? "error" : "warning"},
         {"what", diagnosis.what}});
  }
  return json;
}

void take_results(StudyItem& item, const run::Run& run) {
  const metrics::Metrics metrics = metrics::measure(run);
  item.json = metrics::results_json(run, metrics);
  item.json["name"] = item.job->job.name;
  item.json["diagnoses"] = as_json(item.job->diagnoses);
  const std::optional<metrics::RunLifetimeUse> use = run_lifetime_use(run, metrics);
  if (use) item.json["lifetime_use"] = metrics::lifetime_use_json(*use);
  item.cells = metrics::results_row(run, metrics);
  for (std::string& cell : lifetime_use_cells(use))
    item.cells.push_back(std::move(cell));
  cell_named(item.cells, "name") = item.job->job.name;
  item.row = report::result_row(*item.job, run, metrics);
}

void take_diagnoses(StudyItem& item) {
  run::Run nothing;
  nothing.manifest.job = item.job->job;
  nothing.manifest.name = item.job->job.name;
  nothing.manifest.fits_memory = false;
  item.json = metrics::results_json(nothing, {});
  item.json["verdict"] = "invalid";
  item.json["diagnoses"] = as_json(item.job->diagnoses);
  item.cells = metrics::results_row(nothing, {});
  for (std::string& cell : lifetime_use_cells({}))
    item.cells.push_back(std::move(cell));
  cell_named(item.cells, "verdict") = "invalid";
  item.row = report::invalid_row(*item.job);
}

void mark_failed(StudyItem& item) {
  item.json["verdict"] = "failed";
  cell_named(item.cells, "verdict") = "failed";
  item.row->origin = run::Origin::measured;
}

Result<void> first_problem(const std::vector<StudyItem>& items) {
  for (const StudyItem& item : items)
    if (!item.problem.empty()) return error(item.problem);
  return {};
}

StudyResults collect(std::vector<StudyItem>& items, const spec::StudyPlan& plan) {
  StudyResults results;
  results.study = {plan.name, plan.title, plan.about, program_version(), {}};
  Json jobs = Json::array();
  std::vector<std::string> columns = metrics::results_columns();
  for (std::string& column : lifetime_use_columns())
    columns.push_back(std::move(column));
  columns.emplace_back("diagnoses");
  CsvWriter csv(columns);
  for (StudyItem& item : items) {
    if (!item.row) {
      ++results.left;
      continue;
    }
    results.reused += item.reused ? 1 : 0;
    results.failed += item.failed ? 1 : 0;
    for (const std::string& cell : item.cells)
      csv.cell(cell);
    csv.cell(as_text(item.job->diagnoses));
    csv.end_row();
    jobs.push_back(std::move(item.json));
    const bool was_played = item.row->verdict != report::Verdict::invalid;
    results.run_files.push_back(was_played ? item.file : Path());
    results.study.rows.push_back(*std::move(item.row));
  }
  report::tell_conditions(results.study);
  results.csv = csv.text();
  Json json = {{"schema", results_schema},
               {"study", plan.name},
               {"title", plan.title},
               {"producer", program_version()}};
  json.update(report::conclusions_json(results.study));
  json["jobs"] = std::move(jobs);
  results.json = json_text(json) + "\n";
  return results;
}

}  // namespace triplepoint::study
