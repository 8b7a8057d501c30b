// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/learning.h"
#include "triplepoint/app/this_machine.h"
#include "triplepoint/calibrate/machine/this_machine.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/system/process.h"

namespace triplepoint::cli {
namespace {

/// `calibrate --this-machine`: measures (triplepoint-machine), fits, and writes a folder with the
/// measurement, a cluster and a stack.
class ThisMachineFlags {
 public:
  Arguments arguments();
  bool given() const { return given_; }
  Result<int> run(tui::Console&, const std::string& folder, const FormatFlag&);

 private:
  bool given_ = false;
  std::optional<std::string> measured_;
  int64_t ranks_ = 8;
};

constexpr const char* group = "A description of this machine";

Arguments ThisMachineFlags::arguments() {
  return Arguments()
      .group(group)
      .toggle("--this-machine",
              "measure this machine (30 s) and write its description: cluster.toml, stack.toml "
              "(-o, default this-machine)",
              given_)
      .flag("--measured", "JSON", "earlier output of triplepoint-machine, instead of measuring",
            into(measured_), {.words = Words::files})
      .flag("--ranks", "N", "processes that share its cores (default 8)", into_count(ranks_, 1));
}

Result<int> ThisMachineFlags::run(tui::Console& console, const std::string& folder,
                                  const FormatFlag& format) {
  const spec::Library library = TPT_TRY(spec::require_library());
  TPT_TRY(make_folder(folder));
  std::optional<Path> measured;
  if (measured_) measured = *measured_;
  if (!measured) {
    TPT_TRY(app::find_machine_program());
    console.warn("measuring this machine: products, attention, collectives, steps ...\n");
  }
  const calibrate::MachineFit fit =
      TPT_TRY(app::describe_this_machine(folder, measured, ranks_, library));
  print_answer(console, app::machine_document(fit, folder), format);
  return exit_ok;
}

class Calibrate : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("ROWS.csv|NAME.run|LOG",
              "your own measured runs: tables as validate reads them, recordings, logs, traces, "
              "tables of temperatures",
              [this](std::string_view file) -> Result<void> {
                inputs_.push_back({std::string(file), job_});
                return {};
              },
              {.words = Words::files, .repeats = true})
        .flag("--job", "JOB", "job of the inputs after it that name none", into(job_),
              {.words = Words::files, .repeats = true})
        .flag("-o,--output", "FOLDER",
              "where what was learned is written, for --with (default mine; of --this-machine, "
              "this-machine)",
              into(output_), {.words = Words::files})
        .add(format_.argument())
        .add(threads_.argument())
        .add(this_machine_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    const ThreadLimit limit = threads_.limit();
    let_interrupts_end_us();
    if (this_machine_.given()) {
      if (!inputs_.empty())
        return error(
            "--this-machine and measured runs were both given (one measures this machine's cores, "
            "the other learns from runs of jobs); give one of them");
      return this_machine_.run(console, output_.value_or("this-machine"), format_);
    }
    if (inputs_.empty())
      return error(
          "there is nothing to learn from (calibrate learns from your own measured runs); name a "
          "table of them, as in `triplepoint calibrate runs.csv -o mine`, or try --this-machine");
    const auto answer = TPT_TRY(app::learn_from_files(TPT_TRY(spec::require_library()), inputs_,
                                                      output_.value_or("mine"), threads_.count()));
    print_answer(console, answer, format_, "runs");
    return exit_ok;
  }

 private:
  std::vector<app::LearnInput> inputs_;
  std::optional<std::string> job_, output_;
  FormatFlag format_;
  ThreadsFlag threads_{"runs in parallel (default: all cores)"};
  ThisMachineFlags this_machine_;
};

}  // namespace

std::unique_ptr<Command> make_calibrate() {
  return std::make_unique<Calibrate>();
}

}  // namespace triplepoint::cli
