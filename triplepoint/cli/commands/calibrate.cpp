// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/library.h"

#include "triplepoint/app/learning.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/output_flags.h"
#include "triplepoint/cli/flags/this_machine_flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/system/process.h"

namespace triplepoint::cli {
namespace {

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
        .flag("--job", "JOB", "what the inputs after it ran that do not say so themselves",
              into(job_), {.words = Words::files, .repeats = true})
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
