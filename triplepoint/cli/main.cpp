// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/console.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/start_search.h"

/// What the program can do is listed in commands.cpp; each verb has a file of its own.
int main(int argc, char** argv) {
  using namespace triplepoint::cli;
  const std::vector<std::string> words(argv + 1, argv + argc);
  listen_for_interrupts();
  Console console = process_console();
  if (const auto stayed = become_search_under_mpi(argc, argv); !stayed) {
    console.warn("triplepoint: " + stayed.error().what + "\n");
    return exit_failed;
  }
  return run_command_line(words, console);
}
