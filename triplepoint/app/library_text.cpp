// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/library_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/library.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/answers/labels.h"
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
          .verdict = {},
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
      workload::count_step_flops(job).model / static_cast<double>(workload::tokens_per_step(job));
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
  if (known == job.model) return {};
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
          .verdict = {},
          .sections = {{.id = "jobs", .title = "", .tables = {std::move(table)}}},
          .numbers = {{"kind", "study"},
                      {"about", study.title},
                      {"details", study.about},
                      {"jobs", std::move(jobs)}}};
}

}  // namespace triplepoint::app
