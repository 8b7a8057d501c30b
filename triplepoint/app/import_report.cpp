// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/import_report.h"

#include <map>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/app/runner.h"

namespace triplepoint::app {
namespace {

using formats::FolderRow;

/// "job", "invalid" or "unreadable".
std::string state_of(const FolderRow& row) {
  if (!row.imported) return "unreadable";
  return spec::has_errors(row.imported->diagnoses) ? "invalid" : "job";
}

Json job_json(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return {{"name", job.name},
          {"task", spec::name_of(job.task)},
          {"model", job.model.name},
          {"cluster", job.cluster.name},
          {"num_gpus", job.world_size()},
          {"layout", answers::configuration_label(job)},
          {"variant", answers::variant_label(job)},
          {"tensor_parallel_size", plan.tensor_parallel_size},
          {"pipeline_parallel_size", plan.pipeline_parallel_size},
          {"expert_parallel_size", plan.expert_parallel_size},
          {"context_parallel_size", plan.context_parallel_size},
          {"micro_batch_size", plan.micro_batch_size},
          {"global_batch_size", plan.global_batch_size}};
}

Json as_json(const FolderRow& row) {
  Json json = {{"file", row.path}, {"state", state_of(row)}};
  if (row.imported) {
    json["job"] = job_json(row.imported->job);
    json["diagnoses"] = app::as_json(row.imported->diagnoses);
    json["assumed"] = row.imported->assumed;
  } else {
    json["problem"] = row.problem;
  }
  if (row.identical_to) json["identical_to"] = *row.identical_to;
  if (row.same_job_as) json["same_job_as"] = *row.same_job_as;
  return json;
}

std::string remark_of(const FolderRow& row) {
  if (!row.imported) return row.problem;
  if (row.identical_to) return "same bytes as " + *row.identical_to;
  std::string remark;
  for (const spec::Diagnosis& diagnosis : row.imported->diagnoses) {
    remark += fmt::format("{}{}", remark.empty() ? "" : "; ", diagnosis.what);
  }
  return remark;
}

Style style_of(const std::string& state) {
  return state == "job" ? Style::plain : state == "invalid" ? Style::warning : Style::bad;
}

}  // namespace

answers::Document import_document(const formats::FolderImport& import) {
  DataTable table = text_table({{"file", Align::left},
                                {"state", Align::left},
                                {"model", Align::left},
                                {"layout", Align::left},
                                {"mbs"},
                                {"gbs"},
                                {"GPUs"},
                                {"remarks", Align::left}});
  std::map<std::string, std::size_t> states, codes;
  Json files = Json::array();
  for (const FolderRow& row : import.rows) {
    const std::string state = state_of(row);
    ++states[state];
    files.push_back(as_json(row));
    const spec::Job* job = row.imported ? &row.imported->job : nullptr;
    table.add({row.path,
               {state, style_of(state)},
               job ? job->model.name : "",
               job ? answers::configuration_label(*job) : "",
               job ? std::to_string(job->plan.micro_batch_size) : "",
               job ? std::to_string(job->plan.global_batch_size) : "",
               job ? std::to_string(job->world_size()) : "",
               remark_of(row)});
    if (!row.imported) continue;
    for (const spec::Diagnosis& diagnosis : row.imported->diagnoses)
      ++codes[std::string(spec::name_of(diagnosis.code))];
  }
  answers::Section section{.id = "files", .title = "", .tables = {std::move(table)}};
  section.remarks.push_back(
      {fmt::format("{} files, {} distinct: {} jobs, {} invalid, {} unreadable", import.rows.size(),
                   import.distinct(), states["job"], states["invalid"], states["unreadable"])});
  for (const auto& [code, count] : codes)
    section.remarks.push_back({fmt::format("{} times {}", count, code)});
  return {.kind = "import",
          .title = "",
          .facts = "",
          .verdict = {},
          .sections = {std::move(section)},
          .numbers = {{"files", std::move(files)},
                      {"distinct", import.distinct()},
                      {"skipped", import.skipped}}};
}

}  // namespace triplepoint::app
