// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::flags {

/// What a shell may offer for an argument; `library` is every name that `show` knows. Where a name
/// of the library stands, a file of one's own may stand as well.
enum class Words {
  none,
  files,
  folders,
  models,
  clusters,
  stacks,
  optimizers,
  records,
  studies,
  library
};

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
  /// Takes this one out, for a command that means something else by it.
  Arguments& without(std::string_view name);

 private:
  std::string group_ = "Options";
};

/// Flags by name and text: {"--tp", "8"}; a switch has "".
using FlagTexts = std::vector<std::pair<std::string, std::string>>;

/// Whether the argument has this name: "--tp", or its whole name if it is a word.
bool has_name(const Argument& argument, std::string_view name);

/// The argument's store, which refuses what is no choice of it and an empty name of a file, a
/// folder or an entry of the library, with the flag in front of the sentence: "--schedule: "2f2b"
/// is no choice; ...".
Result<void> store_text(const Argument& argument, std::string_view text);

}  // namespace triplepoint::flags
