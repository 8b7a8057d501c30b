// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "triplepoint/cli/command.h"
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
        .flag("-o,--output", "FOLDER", "where the description is written (default this-machine)",
              into(output_), {.words = Words::files})
        .add(format_.argument())
        .add(this_machine_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    if (!this_machine_.given())
      return error(
          "nothing is chosen to be measured (coefficients of published tables are fitted by "
          "lab/fit_tables.py); try --this-machine");
    return this_machine_.run(console, output_.value_or("this-machine"), format_.is_json());
  }

 private:
  std::optional<std::string> output_;
  FormatFlag format_;
  ThisMachineFlags this_machine_;
};

}  // namespace

std::unique_ptr<Command> make_calibrate() {
  return std::make_unique<Calibrate>();
}

}  // namespace triplepoint::cli
