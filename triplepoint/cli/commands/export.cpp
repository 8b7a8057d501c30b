// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/export.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/store.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/study/experiments.h"
#include "triplepoint/study/library_text.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::cli {
namespace {

class Export : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("JOB", "job.toml, NeMo YAML, Megatron arguments, a run, or STUDY:JOB", into(job_),
              {.words = Words::files, .required = true})
        .toggle("--megatron-args", "as arguments of Megatron-LM's pretrain_gpt.py", megatron_)
        .toggle("--nemo-yaml", "as a NeMo configuration", nemo_)
        .toggle("--toml", "as a Triplepoint job file", toml_)
        .flag("--csv", "FOLDER", "a run as tables: series, spans, devices, steps", into(csv_),
              {.words = Words::folders})
        .flag("--upstream-csv", "FOLDER",
              "a run as the paper's artifact writes it: gpu_power_0.csv, ..., traces in "
              "1_kineto, and their kernel sums",
              into(upstream_csv_), {.words = Words::folders})
        .flag("--zeus-csv", "FOLDER", "a run as Zeus writes it: power.csv, windows.csv",
              into(zeus_csv_), {.words = Words::folders})
        .flag("-o,--output", "FILE", "instead of standard output", into(output_),
              {.words = Words::files})
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const bool is_job = megatron_ || nemo_ || toml_;
    const bool is_run = csv_ || upstream_csv_ || zeus_csv_;
    if (int(megatron_) + int(nemo_) + int(toml_) + int(is_run) != 1) {
      console.warn(
          "triplepoint: export: no output format (there are several); for a job give one of "
          "--megatron-args, --nemo-yaml and --toml, for a run --csv, --upstream-csv or "
          "--zeus-csv\n");
      return exit_usage;
    }
    return is_job ? export_job(console) : export_run(console);
  }

 private:
  Result<int> export_job(tui::Console& console) {
    const spec::Library library = TPT_TRY(spec::require_library());
    const spec::Job job = TPT_TRY(formats::read_job(library, job_));
    TPT_TRY(spec::require_valid(job));
    if (megatron_) TPT_TRY(spec::require_training(job, "Megatron-LM's command is written"));
    study::print_warnings(console, job);
    const formats::Exported exported = written(library, job);
    if (!exported.refused_by_launcher.empty())
      return error(fmt::format("{}: not written ({}); try --megatron-args, which has any layout",
                               job_, exported.refused_by_launcher));
    if (output_) {
      TPT_TRY(require_other_file(*output_, {job_}));
      TPT_TRY(write_file_atomically(*output_, exported.text));
    } else if (format_.is_json()) {
      print_json(console, {{"job", job.name},
                           {"kind", megatron_ ? "megatron-args"
                                    : nemo_   ? "nemo-yaml"
                                              : "toml"},
                           {"text", exported.text}});
    } else {
      console.print(exported.text);
    }
    for (const std::string& setting : exported.unsupported_settings)
      console.warn("triplepoint: not exported: " + setting + "\n");
    return exit_ok;
  }

  Result<int> export_run(tui::Console& console) const {
    const run::Run run = TPT_TRY(run::load(job_));
    Json written = Json::array();
    const auto write = [&](const std::optional<std::string>& folder,
                           const std::vector<run::NamedText>& files) -> Result<void> {
      if (!folder) return {};
      if (files.empty())
        return error(
            fmt::format("{}: nothing to write to {} (the run has no such series); triplepoint show "
                        "{} lists its series",
                        job_, *folder, job_));
      TPT_TRY(run::write_all(files, *folder));
      for (const run::NamedText& file : files)
        written.push_back((Path(*folder) / file.name).string());
      return {};
    };
    if (csv_) TPT_TRY(write(csv_, run::csv_tables(run)));
    if (upstream_csv_) {
      std::vector<run::NamedText> files = telemetry::artifact_files(run);
      std::ranges::move(study::kineto_files(run), std::back_inserter(files));
      const Path folder = absolute_path(*upstream_csv_).lexically_normal();
      const std::string experiment =
          (folder.has_filename() ? folder : folder.parent_path()).filename().string();
      if (auto sums = study::kernel_stats_file(run, experiment)) files.push_back(*std::move(sums));
      if (auto job = configuration(run)) files.push_back({experiment + ".yaml", *std::move(job)});
      TPT_TRY(write(upstream_csv_, files));
    }
    if (zeus_csv_) TPT_TRY(write(zeus_csv_, telemetry::zeus_files(run)));
    if (format_.is_json())
      print_json(console, {{"run", job_}, {"written", written}});
    else
      console.print(fmt::format("{} files written\n", written.size()));
    return exit_ok;
  }

  /// The run's job as a NeMo YAML; nothing where that would be another job.
  static std::optional<std::string> configuration(const run::Run& run) {
    if (!run.manifest.job) return std::nullopt;
    formats::Exported yaml = formats::export_nemo_yaml(*run.manifest.job);
    const bool is_same = yaml.unsupported_settings.empty() && yaml.refused_by_launcher.empty();
    return is_same ? std::optional(std::move(yaml.text)) : std::nullopt;
  }

  formats::Exported written(const spec::Library& library, const spec::Job& job) const {
    if (megatron_) return formats::export_megatron_args(job);
    if (nemo_) return formats::export_nemo_yaml(job);
    return {.text = spec::write_job(job, library), .unsupported_settings = {}};
  }

  std::string job_;
  bool megatron_ = false, nemo_ = false, toml_ = false;
  std::optional<std::string> output_, csv_, upstream_csv_, zeus_csv_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_export() {
  return std::make_unique<Export>();
}

}  // namespace triplepoint::cli
