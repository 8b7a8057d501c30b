// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "triplepoint/cli/command.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {

/// Reads the words after the program's name, runs the command they ask for, prints what went wrong.
/// Returns the exit code: 0 fine, 1 our error, 2 wrong use, 130 interrupted.
int run_command_line(std::span<const std::string> words, tui::Console& console);

/// One command, made by the caller, with the words after its name.
int run_command(const CommandEntry& entry, Command& command, std::span<const std::string> words,
                tui::Console& console);

/// Help of the program, and of one command. `width`: columns to wrap at.
std::string program_help(std::size_t width);
std::string command_help(const CommandEntry& entry, std::size_t width);

/// What `shell` (bash, zsh, fish) reads to complete commands, flags and names.
std::string completion_script(std::string_view shell);

}  // namespace triplepoint::cli
