// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/library_text.h"

#include <algorithm>
#include <map>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/app/runner.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::app {
namespace {

Json job_json(const spec::StudyJob& entry) {
  Json diagnoses = Json::array();
  for (const spec::Diagnosis& diagnosis : entry.diagnoses)
    diagnoses.push_back({{"code", spec::name_of(diagnosis.code)}, {"what", diagnosis.what}});
  return {{"name", entry.job.name},
          {"model", entry.job.model.name},
          {"cluster", entry.job.cluster.name},
          {"num_gpus", entry.job.world_size()},
          {"layout", answers::configuration_label(entry.job)},
          {"variant", answers::variant_label(entry.job)},
          {"micro_batch_size", entry.job.plan.micro_batch_size},
          {"diagnoses", std::move(diagnoses)}};
}

}  // namespace

answers::Document library_document(const std::string& kind, const std::string& name,
                                   const std::string& about,
                                   const std::vector<spec::Provenance>& numbers) {
  DataTable table = text_table({{"number", Align::left},
                                {"value", Align::left},
                                {"kind", Align::left},
                                {"source", Align::left}});
  Json all = Json::array();
  for (const spec::Provenance& number : numbers) {
    const std::string_view of = spec::enum_name(number.kind);
    table.add({number.key, number.value, std::string(of), number.cite});
    all.push_back({{"key", number.key},
                   {"value", number.value},
                   {"kind", of},
                   {"source", number.cite},
                   {"file", number.file},
                   {"line", number.line}});
  }
  return {.kind = kind,
          .title = kind + " " + name,
          .facts = about,
          .sections = {{.id = "numbers", .title = "", .tables = {std::move(table)}}},
          .numbers = {{"kind", kind}, {"about", about}, {"numbers", std::move(all)}}};
}

Result<std::vector<spec::Provenance>> numbers_of(const spec::Library& library,
                                                 const std::string& file) {
  std::vector<spec::Provenance> numbers = TPT_TRY(spec::provenance(library, file));
  const auto add = [&](std::vector<spec::Provenance> more) {
    std::ranges::move(more, std::back_inserter(numbers));
  };
  if (file.starts_with("clusters/")) {
    const spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, file.substr(9)));
    add(TPT_TRY(numbers_of(library, "gpus/" + cluster.gpu.name)));
  }
  const Path folder =
      Path(library.root) / "calibrations" / (file.starts_with("gpus/") ? file.substr(5) : "");
  if (!file.starts_with("gpus/") || !path_exists(folder)) return numbers;
  for (const Path& each : TPT_TRY(list_files(folder, ".toml")))
    add(TPT_TRY(spec::provenance(library, each.string())));
  return numbers;
}

std::string model_text(const spec::Job& job) {
  const spec::OptimizerState& optimizer = job.plan.optimizer;
  const bool whole = job.task == spec::Task::pretrain;  // else the weights are all that is of size
  const double bytes = whole ? optimizer.weight_bytes + optimizer.gradient_bytes +
                                   optimizer.moment_bytes + optimizer.master_bytes
                             : optimizer.weight_bytes;
  const Flops work =
      workload::count_step_flops(job).model / as_real(workload::tokens_per_step(job));
  const Bytes memory = bytes * spec::count_parameters(job.model).total() * unit::B;
  return fmt::format(
      "{}; {} a token; {} of weights{}", spec::about_model(job.model), to_text(work, 3),
      to_text(memory, 3),
      whole ? fmt::format(", gradients and optimizer states ({})", optimizer.name) : "");
}

Result<std::string> model_text(const spec::Library& library, const spec::Model& model) {
  const spec::Stack stack = TPT_TRY(spec::load_stack(library, spec::default_stack));
  spec::Job job;
  job.model = model;
  job.cluster.gpus_per_node = 1;
  job.plan.optimizer = TPT_TRY(spec::load_optimizer(library, spec::default_optimizer(stack)));
  return model_text(job);
}

std::string own_model_text(const spec::Library& library, const spec::Job& job) {
  Result<spec::Model> known = spec::load_model(library, job.model.name);
  if (known) known->sequence_length = job.model.sequence_length;
  // What is wrong with the job is told by what asks for it; its work cannot be counted.
  if (known == job.model || spec::has_errors(spec::diagnose(job))) return {};
  return fmt::format("model {}{}: {}", job.model.name, known ? ", changed" : "", model_text(job));
}

std::vector<std::string> warnings_of(const spec::Job& job) {
  std::vector<std::string> warnings;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job)) {
    // Of a launch file it is a note already, with its line.
    const auto says_it = [&](const std::string& note) { return note.ends_with(diagnosis.what); };
    if (diagnosis.severity == spec::Diagnosis::Severity::warning &&
        std::ranges::none_of(job.notes, says_it))
      warnings.push_back(diagnosis.what);
  }
  return warnings;
}

answers::Document plan_document(const spec::StudyPlan& study) {
  DataTable table = text_table({{"job", Align::left},
                                {"model", Align::left},
                                {"machines", Align::left},
                                {"layout", Align::left},
                                {"variant", Align::left},
                                {"mbs"},
                                {"problem", Align::left}});
  Json jobs = Json::array();
  for (const spec::StudyJob& entry : study.jobs) {
    const auto problem = std::ranges::find(entry.diagnoses, spec::Diagnosis::Severity::error,
                                           &spec::Diagnosis::severity);
    table.add({entry.job.name, entry.job.model.name,
               fmt::format("{} x {}", entry.job.cluster.num_nodes, entry.job.cluster.name),
               answers::configuration_label(entry.job), answers::variant_label(entry.job),
               std::to_string(entry.job.plan.micro_batch_size),
               problem == entry.diagnoses.end() ? "" : problem->what});
    jobs.push_back(job_json(entry));
  }
  return {.kind = "study",
          .title = "study " + study.name,
          .facts = study.title + ". " + study.about,
          .sections = {{.id = "jobs", .title = "", .tables = {std::move(table)}}},
          .numbers = {{"kind", "study"},
                      {"about", study.title},
                      {"details", study.about},
                      {"jobs", std::move(jobs)}}};
}

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
  return joined(mapped(row.imported->diagnoses, &spec::Diagnosis::what), "; ");
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
  section.remarks.push_back({fmt::format(
      "{} file{}, {} distinct: {} job{}, {} invalid, {} unreadable", import.rows.size(),
      import.rows.size() == 1 ? "" : "s", import.distinct(), states["job"],
      states["job"] == 1 ? "" : "s", states["invalid"], states["unreadable"])});
  if (import.rows.size() == 1 && import.rows.front().imported)
    for (const std::string& each : import.rows.front().imported->assumed)
      section.remarks.push_back({each, answers::Remark::Kind::note});
  for (const auto& [code, count] : codes)
    section.remarks.push_back(
        {count == 1 ? "once " + code : fmt::format("{} times {}", count, code)});
  return {.kind = "import",
          .title = "",
          .facts = "",
          .sections = {std::move(section)},
          .numbers = {{"files", std::move(files)},
                      {"distinct", import.distinct()},
                      {"skipped", import.skipped}}};
}

}  // namespace triplepoint::app
