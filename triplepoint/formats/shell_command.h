// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::formats {

inline constexpr std::string_view run_it_instead =
    "say it by -- ARGS or --env NAME=VALUE, or let --run-script run the script in a sandbox and "
    "read "
    "what it launches";

struct ShellWord {
  std::string text;
  int line = 0;
  std::string doubt;     // why the word is not certain; empty: it is
  std::string raw = {};  // the text with the reader's own marks
  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

/// One command of a script with its words expanded, and the variables it was given.
struct ShellCommand {
  std::vector<ShellWord> words;
  std::map<std::string, std::string> variables;  // known at its end; arrays joined by blanks
  std::vector<std::string> remarks;              // what was passed over and could matter
  bool only_arguments = false;  // the file launches nothing, it holds an array of arguments

  std::optional<std::string> variable(const std::string& name) const;
  /// Has two of the arguments without which Megatron does not start.
  bool is_training() const;
  /// Behind the program; 0 without one.
  std::size_t first_argument() const;
};

struct Launch {
  ShellCommand command;
  int line = 0;
  std::string doubt;  // "under the condition of line 3"; empty: it is launched once
};

/// The one training among what a script launches; no words if it launches none. Several, or one
/// that may not run, are an error.
Result<ShellCommand> choose_launch(std::vector<Launch> launches, std::string_view name);

/// What a script finds around it. Without arguments, those it uses are in doubt; variables that
/// neither this nor the script sets are unset, as in an empty environment, which a remark tells.
struct ScriptWorld {
  std::map<std::string, std::string> variables = {};  // exported
  std::vector<std::string> arguments = {};
  // The text of a file that the script sources or starts; nothing if there is none.
  std::function<std::optional<std::string>(const std::string& path)> file = {};
};

/// Finds the training that a shell text launches, reading as the shell does what is certain:
/// assignments, arrays, defaults, arithmetic, eval and bash -c, functions that are called, loops
/// over known words, conditions whose sides are known, files that are sourced or started, heredocs.
/// Values set by what may or may not run (other conditions, loops, missing files, read) are in
/// doubt; what cannot be known ($(date)) stays as it is written. A text without any command, e.g. a
/// file of arguments, is one command. `name`: its path.
Result<ShellCommand> find_command(std::string_view text, std::string_view name,
                                  const ScriptWorld& world = {});

}  // namespace triplepoint::formats
