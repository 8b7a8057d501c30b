// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/export.h"

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/run/export.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/app/library_text.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/formats/job_scripts.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"

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
        .toggle("--megatron-bridge", "as a configuration of Megatron-Bridge", bridge_)
        .toggle("--torchtitan", "as a configuration of torchtitan", titan_)
        .toggle("--toml", "as a Triplepoint job file", toml_)
        .flag("--csv", "FOLDER", "a run as tables: series, spans, devices, steps", into(csv_),
              {.words = Words::folders})
        .flag("-o,--output", "FILE", "the file to write (default: standard output)", into(output_),
              {.words = Words::files})
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const int kinds = int(megatron_) + int(nemo_) + int(toml_) + int(bridge_) + int(titan_);
    const bool is_job = kinds > 0;
    if (kinds + int(csv_.has_value()) != 1) {
      console.warn(
          "triplepoint: export: no output format (there are several); for a job give one of "
          "--megatron-args, --nemo-yaml, --megatron-bridge, --torchtitan and --toml, for a run "
          "--csv\n");
      return exit_usage;
    }
    return is_job ? export_job(console) : export_run(console);
  }

 private:
  Result<int> export_job(tui::Console& console) {
    const spec::Library library = TPT_TRY(spec::require_library());
    const spec::Job job = TPT_TRY(formats::read_job(library, job_));
    TPT_TRY(spec::require_valid(job));
    if (megatron_ || bridge_ || titan_)
      TPT_TRY(spec::require_training(job, "a launch file of Megatron or torchtitan is written"));
    print_warnings(console, app::warnings_of(job));
    const formats::Exported exported = written(library, job);
    if (!exported.refused_by_launcher.empty())
      return error("{}: not written ({}); try --megatron-args, which has any model and layout",
                   job_, exported.refused_by_launcher);
    if (output_) {
      TPT_TRY(require_other_file(*output_, {job_}));
      TPT_TRY(write_file_atomically(*output_, exported.text));
    } else if (format_.is_json()) {
      print_json(console, {{"job", job.name},
                           {"kind", megatron_ ? "megatron-args"
                                    : nemo_   ? "nemo-yaml"
                                    : bridge_ ? "megatron-bridge"
                                    : titan_  ? "torchtitan"
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
    const std::vector<run::NamedText> files = run::csv_tables(run);
    TPT_TRY(run::write_all(files, *csv_));
    Json written = mapped<Json>(
        files, [&](const run::NamedText& file) { return (Path(*csv_) / file.name).string(); });
    if (format_.is_json())
      print_json(console, {{"run", job_}, {"written", written}});
    else
      console.print(fmt::format("{} files written\n", written.size()));
    return exit_ok;
  }

  formats::Exported written(const spec::Library& library, const spec::Job& job) const {
    if (megatron_) return formats::export_megatron_args(job);
    if (nemo_) return formats::export_nemo_yaml(job);
    if (bridge_) return formats::export_bridge_yaml(job);
    if (titan_) return formats::export_torchtitan(job, 20);
    return {.text = spec::write_job(job, library)};
  }

  std::string job_;
  bool megatron_ = false, nemo_ = false, toml_ = false, bridge_ = false, titan_ = false;
  std::optional<std::string> output_, csv_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_export() {
  return std::make_unique<Export>();
}

}  // namespace triplepoint::cli
