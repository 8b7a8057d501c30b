// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "triplepoint/cli/command_line.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

/// What the program can do is listed in command.cpp; each verb has its own file.
int main(int argc, char** argv) {
  using namespace triplepoint;
  const std::vector<std::string> words(argv + 1, argv + argc);
  listen_for_interrupts();
  tui::Console console = tui::process_console();
  int code = cli::run_command_line(words, console);
  console.flush();
  if (code == 0 && !console.out_is_good() && !console.reader_left()) code = 1;  // help, version
  return leave_process(code);
}
