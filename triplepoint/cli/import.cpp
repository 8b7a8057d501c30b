// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/import.h"

#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/run/store.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/findings/labels.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::cli {
namespace {

using formats::FolderRow;
using Severity = spec::Diagnosis::Severity;

/// "job", "invalid" or "unreadable".
std::string state_of(const FolderRow& row) {
  if (!row.imported) return "unreadable";
  return spec::has_errors(row.imported->diagnoses) ? "invalid" : "job";
}

Json as_json(const spec::Diagnosis& diagnosis) {
  return {{"code", spec::name_of(diagnosis.code)},
          {"severity", diagnosis.severity == Severity::error ? "error" : "warning"},
          {"what", diagnosis.what}};
}

Json job_json(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return {{"name", job.name},
          {"task", spec::name_of(job.task)},
          {"model", job.model.name},
          {"cluster", job.cluster.name},
          {"num_gpus", job.world_size()},
          {"layout", report::configuration_label(job)},
          {"variant", report::variant_label(job)},
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
    json["diagnoses"] = Json::array();
    for (const spec::Diagnosis& diagnosis : row.imported->diagnoses)
      json["diagnoses"].push_back(as_json(diagnosis));
    json["assumed"] = row.imported->assumed;
  } else {
    json["problem"] = row.problem;
  }
  if (row.identical_to) json["identical_to"] = *row.identical_to;
  if (row.plays_like) json["plays_like"] = *row.plays_like;
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

class Import : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {
        {.names = "FILE",
         .help = "NeMo YAML, config.json, Megatron arguments, or a folder; a sampler's CSV files",
         .words = Words::files,
         .required = true,
         .store = into(path_)},
        {.names = "--cluster",
         .value = "NAME",
         .help = "where it runs, if the file does not say",
         .words = Words::clusters,
         .store = into(hints_.cluster)},
        {.names = "--nodes,--num-nodes",
         .value = "N",
         .help = "machines, instead of what the file says",
         .store = into(hints_.num_nodes)},
        {.names = "--stack",
         .value = "NAME",
         .help = "software that runs it",
         .words = Words::stacks,
         .store = into(hints_.stack)},
        {.names = "-o,--output",
         .value = "FOLDER",
         .help = "write each job as a job.toml, a recording as a .run",
         .words = Words::folders,
         .store = into(output_)},
        format_.argument()};
  }

  Result<int> run(Console& console) override {
    let_interrupts_end_us();
    if (telemetry::looks_like_upstream(path_)) return import_recording(console);
    const spec::Library library = TPT_TRY(require_library());
    const formats::FolderImport import = TPT_TRY(read(library));
    if (output_) TPT_TRY(write_jobs(library, import));
    format_.is_json() ? print_json(console, whole_json(import)) : print_tables(console, import);
    return exit_ok;
  }

 private:
  Result<int> import_recording(Console& console) const {
    const run::Run run = TPT_TRY(telemetry::read_upstream(path_));
    std::optional<std::string> file;
    if (output_) {
      TPT_TRY(make_folder(*output_));
      file = (Path(*output_) / (run.manifest.name + ".run")).string();
      TPT_TRY(run::save(run, *file));
    }
    if (format_.is_json()) {
      Json json = {{"recording", path_},
                   {"producer", run.manifest.producer},
                   {"devices", run.devices.size()},
                   {"series", run.series.size()},
                   {"steps", run.steps.size()},
                   {"notes", run.manifest.notes}};
      if (file) json["file"] = *file;
      print_json(console, json);
      return exit_ok;
    }
    console.print(fmt::format("{}: a recording of {}: {} GPUs, {} series, {} steps\n", path_,
                              run.manifest.producer, run.devices.size(), run.series.size(),
                              run.steps.size()));
    for (const std::string& note : run.manifest.notes)
      console.print("  " + note + "\n");
    if (file) console.print("written to " + *file + "\n");
    return exit_ok;
  }

  Result<formats::FolderImport> read(const spec::Library& library) const {
    std::error_code ignored;
    if (std::filesystem::is_directory(path_, ignored))
      return formats::import_folder(library, path_, hints_);
    const std::string text = TPT_TRY(read_file(path_));
    FolderRow row;
    row.path = path_;
    if (formats::recognize(text) == formats::FileKind::hf_config) {
      formats::ImportedModel model = TPT_TRY(formats::import_hf_config(text, path_));
      row.imported.emplace();
      row.imported->job.model = std::move(model.model);
      row.imported->job.name = row.imported->job.model.name;
      row.imported->diagnoses = std::move(model.diagnoses);
      row.imported->assumed = std::move(model.assumed);
      if (hints_.cluster)
        row.imported->job.cluster = TPT_TRY(spec::load_cluster(library, *hints_.cluster));
    } else {
      row.imported = TPT_TRY(formats::import_job(library, path_, hints_));
    }
    formats::FolderImport import;
    import.rows.push_back(std::move(row));
    return import;
  }

  Result<void> write_jobs(const spec::Library& library, const formats::FolderImport& import) const {
    for (const FolderRow& row : import.rows) {
      if (!row.imported || row.identical_to) continue;
      Path path = Path(*output_) / Path(row.path).relative_path();
      path.replace_extension(".toml");
      TPT_TRY(make_folder(path.parent_path()));
      TPT_TRY(write_file_atomically(path, spec::write_job(row.imported->job, library)));
    }
    return {};
  }

  static Json whole_json(const formats::FolderImport& import) {
    Json files = Json::array();
    for (const FolderRow& row : import.rows)
      files.push_back(as_json(row));
    return {
        {"files", std::move(files)}, {"distinct", import.distinct()}, {"skipped", import.skipped}};
  }

  static void print_tables(Console& console, const formats::FolderImport& import) {
    TextTable table({{"file", TextTable::Align::left},
                     {"state", TextTable::Align::left},
                     {"model", TextTable::Align::left},
                     {"layout", TextTable::Align::left},
                     {"mbs"},
                     {"gbs"},
                     {"GPUs"},
                     {"remarks", TextTable::Align::left}});
    std::map<std::string, std::size_t> states, codes;
    for (const FolderRow& row : import.rows) {
      const std::string state = state_of(row);
      ++states[state];
      const spec::Job* job = row.imported ? &row.imported->job : nullptr;
      table.add_row({row.path,
                     {state, style_of(state)},
                     job ? job->model.name : "",
                     job ? report::configuration_label(*job) : "",
                     job ? std::to_string(job->plan.micro_batch_size) : "",
                     job ? std::to_string(job->plan.global_batch_size) : "",
                     job ? std::to_string(job->world_size()) : "",
                     remark_of(row)});
      if (!row.imported) continue;
      for (const spec::Diagnosis& diagnosis : row.imported->diagnoses)
        ++codes[std::string(spec::name_of(diagnosis.code))];
    }
    console.print(table.text(console) + "\n");
    console.print(fmt::format("{} files, {} distinct: {} jobs, {} invalid, {} unreadable\n",
                              import.rows.size(), import.distinct(), states["job"],
                              states["invalid"], states["unreadable"]));
    for (const auto& [code, count] : codes)
      console.print(fmt::format("  {:>4}  {}\n", count, code));
  }

  std::string path_;
  formats::ImportHints hints_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_import() {
  return std::make_unique<Import>();
}

}  // namespace triplepoint::cli
