// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/detached.h"
#include "triplepoint/base/process.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/tui/console.h"

namespace {

using namespace triplepoint;

/// What no command has caught becomes a sentence, too.
int run(const std::vector<std::string>& words, tui::Console& console) {
  try {
    return cli::run_command_line(words, console);
  } catch (const std::bad_alloc&) {
    console.warn(
        "triplepoint: out of memory (the job, study or file is larger than this machine's memory); "
        "give a smaller one\n");
  } catch (const std::exception& problem) {
    console.warn(fmt::format(
        "triplepoint: {} (this is a defect of triplepoint); please report it\n", problem.what()));
  }
  return cli::exit_failed;
}

}  // namespace

/// What the program can do is listed in command.cpp; each verb has its own file.
int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  listen_for_interrupts();
  tui::Console console = tui::process_console();
  const int code = run(words, console);
  console.flush();
  return leave_process(code);
}
