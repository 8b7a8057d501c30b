// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::formats {

inline constexpr std::string_view run_it_instead =
    "--run-script [--env NAME=VALUE] [-- ARGS] runs the script in a sandbox and reads what it "
    "launches";

struct ShellWord {
  std::string text;
  int line = 0;
  std::string doubt = {};  // why the word is not certain; empty: it is
  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

bool is_shell_script(const std::string& word);  // by its ending

/// One command of a script with its words expanded, and the variables of its environment.
struct ShellCommand {
  std::vector<ShellWord> words;
  std::map<std::string, std::string> variables;
  std::vector<std::string> remarks;  // what was passed over and could matter
  bool only_arguments = false;       // the file launches nothing, it holds an array of arguments

  std::optional<std::string> variable(const std::string& name) const;
  /// Has two of the arguments without which Megatron does not start.
  bool is_training() const;
  /// What runs a text or another script: "train.sh is another script"; empty where a program
  /// starts.
  std::string started_text() const;
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

/// What a script is started with. Without arguments, those it uses are not known; variables that
/// neither this nor the script sets are unset, as in an empty environment, which a remark tells.
struct ScriptWorld {
  std::map<std::string, std::string> variables = {};  // exported
  std::vector<std::string> arguments = {};
};

/// Finds the training that a shell text launches, read literally: assignments, arrays, defaults,
/// sums and products, conditions whose sides are known, one launch. Loops, cases, functions that
/// are called, files that are sourced and outputs of commands are not run: what they may set or
/// launch is refused where it reaches the training. A text without any command, e.g. a file of
/// arguments, is one command. `name`: its path.
Result<ShellCommand> find_command(std::string_view text, std::string_view name,
                                  const ScriptWorld& world = {});

}  // namespace triplepoint::formats
