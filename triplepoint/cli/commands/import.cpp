// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/import.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"

#include "triplepoint/run/store.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/study/experiment_log.h"
#include "triplepoint/study/experiments.h"
#include "triplepoint/study/import_report.h"
#include "triplepoint/study/sources.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::cli {
namespace {

using formats::FolderRow;

class Import : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("FILE",
              "NeMo YAML, config.json, Megatron arguments, or a folder; a sampler's CSV files, or "
              "the result tree of the MICRO'25 paper's artifact",
              into(path_), {.words = Words::files, .required = true})
        .flag("--cluster", "NAME", "cluster of the job, if the file does not name one",
              into(hints_.cluster), {.words = Words::clusters})
        .flag("--nodes,--num-nodes", "N", "number of nodes, overriding the file",
              into(hints_.num_nodes))
        .flag("--stack", "NAME", "software that runs it", into(hints_.stack),
              {.words = Words::stacks})
        .flag("-o,--output", "FOLDER", "write each job as a job.toml, a recording as a .run",
              into(output_), {.words = Words::folders})
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    if (study::is_experiment(path_) || study::out_of_memory(path_) ||
        telemetry::looks_like_upstream(path_))
      return import_recordings(console, {path_});
    const spec::Library library = TPT_TRY(spec::require_library());
    const Result<formats::FolderImport> found = read(library);
    const std::vector<Path> experiments = recordings_below();
    if (!experiments.empty() && (!found || all_lie_in(experiments, *found))) {
      for (const Path& folder : study::out_of_memory_in(path_))
        console.warn(fmt::format("triplepoint: left out: {}: {}\n", folder.string(),
                                 *study::out_of_memory(folder)));
      return import_recordings(console, experiments);
    }
    if (!found && !is_folder(path_) && study::is_training_log(path_))
      return error(trace::use_of_training_log(path_));
    const formats::FolderImport import = TPT_TRY(found);
    if (output_) TPT_TRY(write_jobs(library, import));
    format_.is_json() ? print_json(console, study::import_json(import))
                      : study::print_import(console, import);
    return is_refused(import) ? exit_failed : exit_ok;
  }

 private:
  /// Whether the one file that was named is not a valid job; a folder may hold some that are not.
  bool is_refused(const formats::FolderImport& import) const {
    return !is_folder(path_) && spec::has_errors(import.rows.front().imported->diagnoses);
  }

  /// Whether every job file is the configuration of an experiment.
  bool all_lie_in(const std::vector<Path>& experiments, const formats::FolderImport& jobs) const {
    return std::all_of(jobs.rows.begin(), jobs.rows.end(), [&](const FolderRow& row) {
      const Path folder = (Path(path_) / row.path).parent_path().lexically_normal();
      return std::any_of(experiments.begin(), experiments.end(), [&](const Path& experiment) {
        return experiment.lexically_normal() == folder;
      });
    });
  }

  std::vector<Path> recordings_below() const {
    return is_folder(path_) ? study::experiments_in(path_) : std::vector<Path>();
  }

  /// Each as a .run file; those of a tree in folders like its own.
  Result<int> import_recordings(tui::Console& console, const std::vector<Path>& sources) const {
    std::vector<Json> all;
    std::vector<std::string> readable;  // by report and compare: what was written, else the source
    bool failed = false;
    for (const Path& source : sources) {
      const Result<run::Run> read = study::load_run_source({source.string()}, {});
      if (!read && sources.size() == 1) return error(read.error().what);
      if (!read) {  // one experiment of a tree does not cost the others
        console.warn("triplepoint: left out: " + read.error().what + "\n");
        failed = true;
        continue;
      }
      const run::Run& run = *read;
      std::optional<std::string> file;
      if (output_) {
        const Path below =
            source == path_ ? Path() : source.lexically_relative(path_).parent_path();
        TPT_TRY(make_folder(Path(*output_) / below));
        file = (Path(*output_) / below / (run.manifest.name + ".run")).string();
        TPT_TRY(run::save(run, *file));
      }
      readable.push_back(file.value_or(source.string()));
      if (format_.is_json())
        all.push_back(recording_json(source, run, file));
      else
        print_recording(console, source, run, file);
    }
    if (format_.is_json())
      print_json(console, sources.front() == path_ ? all.front() : Json(all));
    else if (!readable.empty())
      print_commands(console, readable);
    return failed ? exit_failed : exit_ok;
  }

  static Json recording_json(const Path& source, const run::Run& run,
                             const std::optional<std::string>& file) {
    Json json = {{"recording", source.string()},  {"producer", run.manifest.producer},
                 {"devices", run.devices.size()}, {"series", run.series.size()},
                 {"steps", run.steps.size()},     {"traced_ranks", traced_ranks(run)},
                 {"notes", run.manifest.notes}};
    if (file) json["file"] = *file;
    return json;
  }

  static void print_recording(tui::Console& console, const Path& source, const run::Run& run,
                              const std::optional<std::string>& file) {
    console.print(
        fmt::format("{}: a recording of {}: {} GPUs, {} series, {} steps, {} traced ranks\n",
                    source.string(), run.manifest.producer, run.devices.size(), run.series.size(),
                    run.steps.size(), traced_ranks(run)));
    for (const std::string& note : run.manifest.notes)
      console.print("  " + note + "\n");
    if (file) console.print("written to " + *file + "\n");
  }

  void print_commands(tui::Console& console, const std::vector<std::string>& readable) const {
    const bool is_one = readable.size() == 1;
    console.print(fmt::format(
        "to see {0}: triplepoint report {1}; beside another: triplepoint compare {1} "
        "OTHER\n",
        is_one ? "it" : "them", shell_word(is_one ? readable.front() : output_.value_or(path_))));
  }

  static std::size_t traced_ranks(const run::Run& run) {
    std::set<int32_t> ranks;
    for (const run::Span& span : run.timeline.spans)
      ranks.insert(span.rank);
    return ranks.size();
  }

  Result<formats::FolderImport> read(const spec::Library& library) const {
    if (is_folder(path_)) {
      formats::FolderImport found = TPT_TRY(formats::import_folder(library, path_, hints_));
      if (!found.rows.empty()) return found;
      return error(
          fmt::format("{} holds no launch file (known are NeMo YAML, Megatron arguments and "
                      "config.json); name another folder",
                      path_));
    }
    if (Path(path_).extension() == ".toml")
      return error(
          fmt::format("{} needs no import (every command reads TOML as it is); try triplepoint "
                      "show {}",
                      path_, path_));
    FolderRow row;
    row.path = path_;
    row.imported = TPT_TRY(formats::import_file(library, path_, hints_));
    spec::Job& job = row.imported->job;
    if (job.name.empty()) job.name = job.model.name;
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
