// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/flags/arguments.h"

namespace triplepoint::tui {

class Console;

}  // namespace triplepoint::tui

namespace triplepoint::cli {

using namespace flags;  // NOLINT(google-build-using-namespace): what commands are made of

/// A verb of the program. Arguments point into the object, which therefore stays where it is.
class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  virtual Arguments arguments() = 0;
  /// The exit code, or the sentence that says what went wrong.
  virtual Result<int> run(tui::Console& console) = 0;
};

/// One line of the table of commands.
struct CommandEntry {
  std::string_view name;
  std::string_view group;    // of verbs, by what a person wants to do
  std::string_view summary;  // one line
  std::string_view details;  // what the help says below it
  std::unique_ptr<Command> (*make)();
};

/// All verbs, in the order in which the help shows them.
std::span<const CommandEntry> commands();

/// Words that stand for others.
struct Alias {
  std::string_view typed, meaning;
  std::string_view flag = {};   // of the meaning, as "--every 1s"
  std::string_view names = {};  // where one of these is typed, the flag is left out
};

std::span<const Alias> aliases();

/// The words with what the first ones stand for.
std::vector<std::string> without_alias(std::span<const std::string> words);

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_interrupted = 130;

// One verb, one file: make_simulate() lives in simulate.cpp, and so on.
std::unique_ptr<Command> make_characterize();
std::unique_ptr<Command> make_simulate();
std::unique_ptr<Command> make_import();
std::unique_ptr<Command> make_export();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_serve();
std::unique_ptr<Command> make_show();
std::unique_ptr<Command> make_schema();
std::unique_ptr<Command> make_trace();
std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_validate();
std::unique_ptr<Command> make_plan();
std::unique_ptr<Command> make_place();
std::unique_ptr<Command> make_calibrate();
std::unique_ptr<Command> make_record();
std::unique_ptr<Command> make_snapshot();
std::unique_ptr<Command> make_exporter();
std::unique_ptr<Command> make_doctor();
std::unique_ptr<Command> make_discover();
std::unique_ptr<Command> make_steer();
std::unique_ptr<Command> make_train();
std::unique_ptr<Command> make_explore();
std::unique_ptr<Command> make_why();

}  // namespace triplepoint::cli
