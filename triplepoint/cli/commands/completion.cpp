// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

class Completion : public Command {
 public:
  Arguments arguments() override {
    return Arguments().word("SHELL", "which shell", into(shell_),
                            {.choices = {"bash", "zsh", "fish"}, .required = true});
  }
  Result<int> run(tui::Console& console) override {
    console.print(completion_script(shell_));
    return exit_ok;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion() {
  return std::make_unique<Completion>();
}

}  // namespace triplepoint::cli
