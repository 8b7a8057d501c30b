// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/app/library_text.h"
#include "triplepoint/app/record_flags.h"
#include "triplepoint/app/recording.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

class Record : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("COMMAND", "the training command and its flags, after --", into(command_),
              {.words = Words::files, .required = true, .repeats = true})
        .flag("-o,--output", "NAME.run",
              "the recording; on several nodes each writes NAME.host.run (default: run-JOB.run "
              "or run-DATE.run)",
              into(output_), {.words = Words::files})
        .add(flags_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    app::RecordingRequest request = TPT_TRY(flags_.request());
    request.command = command_;
    request.output = output_;
    if (request.job) print_warnings(console, app::warnings_of(*request.job));
    const auto [code, summary] = TPT_TRY(app::record_command(tui::watch_on(console), request));
    console.warn(summary);
    return code;
  }

 private:
  std::vector<std::string> command_;
  std::optional<std::string> output_;
  app::RecordFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_record() {
  return std::make_unique<Record>();
}

}  // namespace triplepoint::cli
