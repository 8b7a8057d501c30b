// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/export.h"

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/job_flags.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
namespace {

class Export : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {
        {.names = "JOB",
         .help = "job.toml, NeMo YAML, Megatron arguments, a run, or STUDY:JOB",
         .words = Words::files,
         .required = true,
         .store = into(job_)},
        {.names = "--megatron-args",
         .help = "as arguments of Megatron-LM's pretrain_gpt.py",
         .store = into_switch(megatron_)},
        {.names = "--nemo-yaml", .help = "as a NeMo configuration", .store = into_switch(nemo_)},
        {.names = "--toml", .help = "as our own job file", .store = into_switch(toml_)},
        {.names = "-o,--output",
         .value = "FILE",
         .help = "instead of standard output",
         .words = Words::files,
         .store = into(output_)},
        format_.argument()};
  }

  Result<int> run(Console& console) override {
    if (int(megatron_) + int(nemo_) + int(toml_) != 1) {
      console.warn(
          "triplepoint: export: say what to write: --megatron-args, --nemo-yaml or --toml, one of "
          "them\n");
      return exit_usage;
    }
    const spec::Library library = TPT_TRY(require_library());
    const spec::Job job = TPT_TRY(read_job(library, job_));
    TPT_TRY(require_valid(job));
    const formats::Exported exported = written(library, job);
    if (output_) {
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
    for (const std::string& lost : exported.lost)
      console.warn("triplepoint: not exported: " + lost + "\n");
    return exit_ok;
  }

 private:
  formats::Exported written(const spec::Library& library, const spec::Job& job) const {
    if (megatron_) return formats::export_megatron_args(job);
    if (nemo_) return formats::export_nemo_yaml(job);
    return {spec::write_job(job, library), {}};
  }

  std::string job_;
  bool megatron_ = false, nemo_ = false, toml_ = false;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_export() {
  return std::make_unique<Export>();
}

}  // namespace triplepoint::cli
