// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/cli/command_line.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli::testing {

/// What a command printed, and its exit code.
struct Outcome {
  int code = 0;
  std::string out, err;
};

/// The program, in this process.
inline Outcome call(const std::vector<std::string>& words, tui::Console::Abilities abilities = {}) {
  std::ostringstream out, err;
  tui::Console console(out, err, abilities);
  const int code = run_command_line(words, console);
  return {code, out.str(), err.str()};
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace triplepoint::cli::testing
