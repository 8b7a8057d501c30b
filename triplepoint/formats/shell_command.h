// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::formats {

struct ShellWord {
  std::string text;
  int line = 0;
};

/// One command of a script with its words expanded, and the variables it was given.
struct ShellCommand {
  std::vector<ShellWord> words;
  std::map<std::string, std::string> variables;  // known at its end; arrays joined by blanks

  std::optional<std::string> variable(const std::string& name) const;
};

/// Finds the command of a shell text which has the most words that start with "--".
///
/// Understands what launch scripts are made of: comments, continuations, quotes, NAME=value and
/// NAME=(...) with +=, $NAME, ${NAME}, ${NAME[@]}, ${NAME:-word}, $((a * b)), variables in front of
/// a command, and commands inside quotes (bash -c "..."). Conditions are not decided: of two
/// assignments the later one holds. What it cannot know ($(date), $1) stays as it is written.
/// A text without any command, e.g. a file of arguments, is one command.
Result<ShellCommand> find_command(std::string_view text, std::string_view name);

}  // namespace triplepoint::formats
