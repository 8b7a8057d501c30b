// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/import.h"

#include <optional>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/app/library_text.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/launch_flags.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/timeseries/reader.h"

namespace triplepoint::cli {
namespace {

class Import : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("FILE",
              "NeMo YAML, config.json, Megatron arguments, or a folder; files of other samplers",
              into(path_), {.words = Words::files, .required = true})
        .flag("--model", "NAME", "model of the job, in place of the file's", into(model_),
              {.words = Words::models})
        .flag("--cluster", "NAME", "cluster of the job, if the file does not name one",
              into(hints_.cluster), {.words = Words::clusters})
        .flag("--nodes,--num-nodes", "N", "number of nodes, overriding the file",
              into(hints_.num_nodes))
        .flag("--stack", "NAME", "software that runs it", into(hints_.stack),
              {.words = Words::stacks})
        .add(launch_.arguments())
        .flag("-o,--output", "FOLDER", "write each job as a job.toml, a recording as a .run",
              into(output_), {.words = Words::folders})
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    if (telemetry::looks_like_time_series(path_)) return import_recording(console);
    TPT_TRY(launch_.add_to(hints_));
    const spec::Library library = TPT_TRY(spec::require_library());
    const Result<formats::FolderImport> found = read(library);
    if (!found)
      for (const auto& why : {app::use_of_trace(path_), telemetry::why_no_time_series(path_)})
        if (why) return error(*why);
    formats::FolderImport import = TPT_TRY(found);
    for (formats::FolderRow& row : import.rows)
      if (row.imported) tell_defaults(*row.imported);
    if (output_) TPT_TRY(write_jobs(library, import));
    print_answer(console, app::import_document(import), format_);
    return is_refused(import) ? exit_failed : exit_ok;
  }

 private:
  /// What the file leaves out stands first, in the job's notes, too.
  static void tell_defaults(formats::Imported& imported) {
    spec::note_defaults(imported.job, {.job = imported.job,
                                       .stated = imported.stated,
                                       .length_from = imported.length_from,
                                       .of_launcher = imported.of_launcher,
                                       .contested = imported.contested});
    imported.assumed.insert(imported.assumed.begin(), imported.job.notes.front());
  }

  /// Whether the one file that was named is not a valid job; a folder may hold some that are not.
  bool is_refused(const formats::FolderImport& import) const {
    return !is_folder(path_) && spec::has_errors(import.rows.front().imported->diagnoses);
  }

  Result<int> import_recording(tui::Console& console) const {
    const run::Run run = TPT_TRY(app::load_run_source({path_}));
    std::optional<std::string> file;
    if (output_) {
      TPT_TRY(make_folder(*output_));
      file = (Path(*output_) / (run.manifest.name + ".run")).string();
      TPT_TRY(run::save(run, *file));
    }
    print_answer(console, recording_document(run, file), format_);
    return exit_ok;
  }

  answers::Document recording_document(const run::Run& run,
                                       const std::optional<std::string>& file) const {
    const auto joules = run.numbers.recording_energy_j, seconds = run.numbers.recording_s;
    answers::Section section{.id = "recording", .title = ""};
    const auto add = [&](std::string text, answers::Remark::Kind kind) {
      section.remarks.push_back({std::move(text), kind});
    };
    if (joules && seconds)
      add(fmt::format("the GPUs took {} J in {} s", significant(*joules, 4),
                      significant(*seconds, 4)),
          answers::Remark::Kind::finding);
    for (const std::string& note : run.manifest.notes)
      add(note, answers::Remark::Kind::note);
    const std::string readable = shell_word(file.value_or(path_));
    add("triplepoint report " + readable, answers::Remark::Kind::command);
    add(fmt::format("triplepoint compare {} OTHER", readable), answers::Remark::Kind::command);
    return {.kind = "recording",
            .title = "",
            .facts = fmt::format("{}: a recording of {}: {} GPUs, {} series, {} steps{}", path_,
                                 run.manifest.producer, run.devices.size(), run.series.size(),
                                 run.steps.size(), file ? "; written to " + *file : ""),
            .verdict = "",
            .sections = {std::move(section)},
            .numbers = {{"recording", path_},
                        {"producer", run.manifest.producer},
                        {"devices", run.devices.size()},
                        {"series", run.series.size()},
                        {"steps", run.steps.size()},
                        {"notes", run.manifest.notes},
                        {"energy_j", joules ? Json(*joules) : Json()},
                        {"file", file ? Json(*file) : Json()}}};
  }

  Result<formats::FolderImport> read(const spec::Library& library) const {
    if (is_folder(path_)) {
      if (model_)
        return error("--model is the model of one file (a folder has several jobs); name a file");
      formats::FolderImport found = TPT_TRY(formats::import_folder(library, path_, hints_));
      if (!found.rows.empty()) return found;
      return error(
          "{} holds no launch file (known are NeMo YAML, Megatron arguments and "
          "config.json); name another folder",
          path_);
    }
    if (Path(path_).extension() == ".toml" && formats::tool_of(TPT_TRY(read_file(path_))).empty())
      return error(
          "{} needs no import (every command reads TOML as it is); try triplepoint show {}", path_,
          path_);
    formats::FolderRow row;
    row.path = path_;
    row.imported = TPT_TRY(read_file_of(library));
    spec::Job& job = row.imported->job;
    if (job.name.empty()) job.name = job.model.name;
    formats::FolderImport import;
    import.rows.push_back(std::move(row));
    return import;
  }

  /// With --model, of that model, of the file's sequence length where it states one.
  Result<formats::Imported> read_file_of(const spec::Library& library) const {
    if (!model_) return formats::import_file(library, path_, hints_);
    formats::ImportHints hints = hints_;
    hints.by_flags = flags::JobFlags::keys_of_model();
    formats::Imported imported = TPT_TRY(formats::import_file(library, path_, hints));
    formats::NamedModel named = TPT_TRY(formats::read_model(library, *model_, hints));
    if (imported.stated.contains(spec::JobSetting::sequence_length))
      named.model.sequence_length = imported.job.model.sequence_length;
    imported.job.model = std::move(named.model);
    imported.diagnoses.resize(imported.of_file);
    for (spec::Diagnosis& diagnosis : spec::diagnose(imported.job))
      imported.diagnoses.push_back(std::move(diagnosis));
    return imported;
  }

  Result<void> write_jobs(const spec::Library& library, const formats::FolderImport& import) const {
    for (const formats::FolderRow& row : import.rows) {
      if (!row.imported || row.identical_to) continue;
      Path path = Path(*output_) / Path(row.path).relative_path();
      path.replace_extension(".toml");
      TPT_TRY(make_folder(path.parent_path()));
      TPT_TRY(write_file_atomically(path, spec::write_job(row.imported->job, library)));
    }
    return {};
  }

  std::string path_;
  std::optional<std::string> model_;
  formats::ImportHints hints_;
  LaunchFlags launch_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_import() {
  return std::make_unique<Import>();
}

}  // namespace triplepoint::cli
