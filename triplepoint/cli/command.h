// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::tui {

class Console;

}  // namespace triplepoint::tui

namespace triplepoint::cli {

/// What a shell may offer for an argument.
enum class Words { none, files, folders, models, clusters, stacks, optimizers, studies };

/// Reads the text of an argument into a variable; a switch gets "".
using Store = std::function<Result<void>(std::string_view)>;

/// What an argument accepts, where that is not one text of any kind.
struct Accepts {
  std::vector<std::string> choices;  // the only values allowed; empty: any
  Words words = Words::none;
  bool required = false;  // words only
  bool repeats = false;   // a word takes all that are left
};

/// One flag or word of a command: parser, help and shell completion all come from this.
struct Argument : Accepts {
  std::string names;  // "--tp,--tensor-model-parallel-size", "-o,--output"; a word: "STUDY"
  std::string value;  // placeholder of its value: "N"; empty: a switch
  std::string help, group;
  Store store;

  bool is_flag() const { return names.starts_with("-"); }
};

/// The arguments of a command in the order of its help.
class Arguments : public std::vector<Argument> {
 public:
  /// The heading of those that follow.
  Arguments& group(std::string title);
  Arguments& word(std::string name, std::string help, Store store, Accepts accepts = {});
  Arguments& flag(std::string names, std::string value, std::string help, Store store,
                  Accepts accepts = {});
  Arguments& toggle(std::string names, std::string help, bool& target);
  /// With its own heading, or the one in force.
  Arguments& add(Argument argument);
  Arguments& add(Arguments others);

 private:
  std::string group_ = "Options";
};

/// A verb of the program. Arguments point into the object, which therefore stays where it is.
class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command(Command&&) = delete;
  Command& operator=(const Command&) = delete;
  Command& operator=(Command&&) = delete;
  virtual ~Command() = default;

  virtual Arguments arguments() = 0;
  /// The exit code, or the sentence that says what went wrong.
  virtual Result<int> run(tui::Console& console) = 0;
};

/// One line of the table of commands.
struct CommandEntry {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view details;  // what the help says below it
  std::unique_ptr<Command> (*make)();
};

/// All verbs, in the order in which the help shows them.
std::span<const CommandEntry> commands();

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
std::unique_ptr<Command> make_list();
std::unique_ptr<Command> make_show();
std::unique_ptr<Command> make_trace();
std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_validate();
std::unique_ptr<Command> make_plan();
std::unique_ptr<Command> make_place();
std::unique_ptr<Command> make_calibrate();
std::unique_ptr<Command> make_record();
std::unique_ptr<Command> make_merge();
std::unique_ptr<Command> make_top();
std::unique_ptr<Command> make_snapshot();
std::unique_ptr<Command> make_exporter();
std::unique_ptr<Command> make_doctor();
std::unique_ptr<Command> make_discover();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_steer();
std::unique_ptr<Command> make_train();

}  // namespace triplepoint::cli
