// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/study_page.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/number_text.h"

#include "triplepoint/report/findings/keys.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/report/pages/study_sections.h"

// The table of all jobs of a study, and what the page's script knows of each.

namespace triplepoint::report {
namespace {

struct Column {
  const char* name;
  const char* key;
  int digits;
};
constexpr Column columns[] = {{"step (s)", "step_time_s", 3},
                              {"tokens/s", "tokens_per_s", 4},
                              {"MFU", "mfu", 3},
                              {"J/token", "joules_per_token", 3},
                              {"mean power (W)", "power_w.mean", 3},
                              {"peak power (W)", "power_w.peak", 3},
                              {"mean temp. (°C)", "temperature_c.mean", 3},
                              {"peak temp. (°C)", "temperature_c.peak", 3},
                              {"clock (MHz)", "sm_clock_mhz.mean", 4},
                              {"memory (GiB)", "memory_gib.total", 3}};

/// Errors in full; of warnings the code, for they did not keep the job from running.
std::string diagnoses_text(const StudyRow& row) {
  std::string text;
  for (const spec::Diagnosis& diagnosis : row.diagnoses) {
    const bool is_error = diagnosis.severity == spec::Diagnosis::Severity::error;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", spec::name_of(diagnosis.code),
                        is_error ? ": " : "", is_error ? diagnosis.what : "");
  }
  return text;
}

std::vector<std::string> job_cells(const StudyRow& row) {
  std::vector<std::string> cells = {row.name, model_title(row), machine_title(row),
                                    row.has_job ? short_label(row) : "",
                                    std::string(name_of(row.verdict))};
  for (const Column& column : columns) {
    const auto value = number_at(row, column.key);
    cells.push_back(value ? significant(*value, column.digits) : "");
  }
  cells.push_back(diagnoses_text(row));
  return cells;
}

}  // namespace

std::string jobs_section(const Study& study) {
  DataTable table{{"job", "model", "machines", "layout", "verdict"}, {}};
  for (const Column& column : columns)
    table.columns.emplace_back(column.name);
  table.columns.emplace_back("diagnosis");
  for (const StudyRow& row : study.rows)
    table.add(job_cells(row), row.name);
  return "<section aria-labelledby=\"jobs\" class=\"jobs\"><h2 id=\"jobs\">All jobs</h2>"
         "<p class=\"filter\" hidden><label>Show only jobs with <input type=\"search\" "
         "id=\"filter\" placeholder=\"e.g. oom, TP8, mixtral\"></label> <span id=\"filter-count\" "
         "role=\"status\"></span></p>" +
         html_table(table, "Every job of the study with its verdict") + "</section>\n";
}

Json jobs_data(const Study& study) {
  Json jobs = Json::array();
  for (const StudyRow& row : study.rows) {
    const std::string options = options_label(row);
    jobs.push_back({{"name", row.name},
                    {"model", model_title(row)},
                    {"machine", machine_title(row)},
                    {"layout", row.has_job ? layout_label(row) : ""},
                    {"variant", !row.has_job      ? ""
                                : options.empty() ? "base"
                                                  : options},
                    {"microbatch", row.has_job ? row.job.plan.micro_batch_size : 0},
                    {"verdict", name_of(row.verdict)},
                    {"page", row.page}});
  }
  return jobs;
}

namespace {

std::string chooser(const std::vector<Group>& groups) {
  std::string html = "<nav class=\"chooser\" aria-label=\"Model and machines\">";
  for (const Group& group : groups)
    html += fmt::format("<a href=\"#group-{}\">{}</a>", group.id, escape(group.title));
  return html + "</nav>\n";
}

}  // namespace

std::string study_page(const Study& study) {
  const std::vector<Group> groups = groups_of(study);
  Json tables = Json::object();
  const std::vector<Finding> findings = find_findings(study);
  std::string body = study_header(study) + overview_section(groups, findings) +
                     answers_section(groups) + findings_section(findings) +
                     machines_section(groups) + chooser(groups);
  for (const Group& group : groups)
    body += group_section(group, tables);
  body += jobs_section(study);
  return html_page(study.title, body, {{"jobs", jobs_data(study)}, {"tables", std::move(tables)}});
}

}  // namespace triplepoint::report
