// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/command_line.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <new>
#include <optional>

#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/installation.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/flags/job_flags.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/sim/step_at_clocks.h"

namespace triplepoint::cli {
namespace {

std::string usage_error(std::string_view what, std::string_view command) {
  return fmt::format("triplepoint: {}\n(triplepoint {}{}--help shows what there is)\n", what,
                     command, command.empty() ? "" : " ");
}

std::vector<std::string> command_names() {
  return mapped<std::string>(commands(), &CommandEntry::name);
}

bool is_switch(const Argument& argument) {
  return argument.is_flag() && argument.value.empty();
}

/// The sentence of a flag that the command does not have.
Error unknown_flag(std::string_view flag, const Arguments& arguments) {
  const auto flag_whose_help = [&](const auto& test) -> std::optional<std::string> {
    for (const Argument& each : arguments)
      if (each.is_flag() && test(each, lower_case(each.names + " " + each.help + " ")))
        return each.names.substr(0, each.names.find(','));
    return std::nullopt;
  };
  const std::string text =
      lower_case(flag.substr(std::min(flag.size(), flag.find_first_not_of('-'))));
  // It may be an item of another, as --etp of plan's --fix, or have its words: --tensor-parallel.
  auto close = flag_whose_help([&](const Argument& each, const std::string& help) {
    return each.value == "LIST" && contains(help, " " + text + " ");
  });
  std::vector<std::string> known = {"--help"};
  for (const Argument& each : arguments)
    if (each.is_flag()) std::ranges::move(split(each.names, ','), std::back_inserter(known));
  if (!close) close = closest_word(flag, known);
  if (!close && flag.starts_with("--"))
    close = flag_whose_help([words = split(text, '-')](const Argument&, const std::string& help) {
      return std::ranges::all_of(words, [&](const auto& word) { return contains(help, word); });
    });
  if (close) return {fmt::format("unknown flag {}; did you mean {}?", flag, *close)};
  const bool of_job = std::ranges::any_of(JobFlags().arguments(),
                                          [&](const auto& each) { return has_name(each, flag); });
  return {fmt::format(
      "unknown flag {}{}", flag,
      of_job ? " (it describes a job: simulate and plan take it; here name a file of one)" : "")};
}

/// Fills a command's variables, in the order of the words: some are about those after them. The
/// first that a reader refuses ends it.
class WordReader {
 public:
  explicit WordReader(const Arguments& arguments)
      : arguments_(arguments), given_(arguments.size()) {}

  Result<void> read(std::span<const std::string> words) {
    words_ = words;
    while (!words_.empty()) {
      const std::string word = next();
      const bool is_flag = !behind_dashes_ && word.size() > 1 && word.starts_with("-");
      if (is_flag && word == "--")
        behind_dashes_ = true;
      else
        TPT_TRY(is_flag ? read_flag(word) : read_word(word));
    }
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (const Argument& argument = arguments_[i]; argument.required && given_[i] == 0)
        return error("{} is missing{}{}", argument.names,
                     argument.choices.empty() ? "" : "; known are ",
                     joined(argument.choices, ", "));
    return {};
  }

 private:
  std::string next() {
    std::string word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  const Argument* flag_named(std::string_view name) const {
    return find_where(arguments_,
                      [&](const Argument& each) { return each.is_flag() && has_name(each, name); });
  }

  int& times_given(const Argument& argument) {
    return given_[as_size(&argument - arguments_.data())];
  }

  /// --name VALUE, --name=VALUE, -nVALUE, or a switch.
  Result<void> read_flag(const std::string& word) {
    std::string name = word.substr(0, word.find('='));
    std::optional<std::string> value;
    if (name.size() < word.size()) value = word.substr(name.size() + 1);
    const Argument* argument = flag_named(name);
    if (argument == nullptr && !word.starts_with("--") && word.size() > 2) {
      argument = flag_named(word.substr(0, 2));
      value = word.substr(2);
    }
    if (argument == nullptr) return tl::unexpected(unknown_flag(name, arguments_));
    if (is_switch(*argument) && !value) return store_text(*argument, "");
    if (is_switch(*argument)) return error("{} takes no value", name);
    if (++times_given(*argument) > 1 && !argument->repeats)
      return error("{} was given twice (it takes one value); keep one of them", argument->names);
    if (!value && !words_.empty() && flag_named(words_.front()) == nullptr) value = next();
    if (!value) return error("{0} needs a value: {0} {1}", name, argument->value);
    return store_text(*argument, *value);
  }

  /// Behind "--" words go, whatever they look like, to the argument that takes many.
  Result<void> read_word(const std::string& word) {
    const auto found = std::ranges::find_if(arguments_, [&](const Argument& each) {
      return !each.is_flag() && (each.repeats || (!behind_dashes_ && times_given(each) == 0));
    });
    if (found == arguments_.end())
      return error(
          behind_dashes_
              ? "nothing is expected behind --"
              : fmt::format("unexpected word \"{}\" (the command takes no more of them)", word));
    ++times_given(*found);
    return behind_dashes_ ? found->store(word) : store_text(*found, word);
  }

  const Arguments& arguments_;
  std::vector<int> given_;  // how often, of each
  std::span<const std::string> words_;
  bool behind_dashes_ = false;
};

bool asks_for_help(std::span<const std::string> words) {
  const auto dashes = std::ranges::find(words, "--");
  return std::any_of(words.begin(), dashes,
                     [](const std::string& word) { return word == "-h" || word == "--help"; });
}

/// Before the work: whether a file, or a folder with those above it, can be made there.
Result<void> require_room_for(const std::string& output, bool as_folder) {
  std::error_code failed;
  if (std::filesystem::is_other(output, failed)) return {};                    // a stream
  Path at = std::filesystem::weakly_canonical(absolute_path(output), failed);  // behind links
  if (!as_folder) at = at.parent_path();
  while (as_folder && !path_exists(at) && at.has_relative_path())
    at = at.parent_path();
  const Path probe = at / fmt::format(".triplepoint-{}", ::getpid());
  if (!failed) std::filesystem::create_directory(probe, failed);
  if (failed)
    return error("cannot write {} ({}: {}); name another place with -o", output, at.string(),
                 failed.message());
  std::filesystem::remove(probe, failed);
  return {};
}

int fail(tui::Console& console, std::string_view why) {
  console.warn(fmt::format("triplepoint: {}\n", why));
  return exit_failed;
}

}  // namespace

int run_command(const CommandEntry& entry, Command& command, std::span<const std::string> words,
                tui::Console& console) try {
  if (asks_for_help(words)) {
    console.print(command_help(entry, console.abilities().width.value_or(100)));
    return exit_ok;
  }
  Arguments arguments = command.arguments();
  Result<void> room;
  for (Argument& each : arguments)
    if (has_name(each, "--output"))
      each.store = [&room, store = each.store,
                    holds_many = each.value == "FOLDER" || each.value == "DIR"](auto text) {
        room = require_room_for(std::string(text), holds_many && !text.ends_with(".html"));
        return store(text);
      };
  if (const Result<void> read = WordReader(arguments).read(words); !read) {
    console.warn(usage_error(fmt::format("{}: {}", entry.name, read.error().what), entry.name));
    return exit_usage;
  }
  if (!room) return fail(console, room.error().what);
  const Result<int> code = command.run(console);
  console.flush();
  if (!code) return fail(console, code.error().what);
  if (!console.out_is_good() && !console.reader_left())
    return fail(console, "could not write the output (is the disk full?)");
  return *code;
} catch (const std::bad_alloc&) {
  return fail(console,
              "out of memory (the job, study or file is larger than this machine's memory); give a "
              "smaller one");
} catch (const sim::StepTooLong& problem) {
  return fail(console, problem.what());
} catch (const std::exception& problem) {
  return fail(console, fmt::format("{} (this is a defect of triplepoint); please report it",
                                   problem.what()));
}

int run_command_line(std::span<const std::string> typed, tui::Console& console) {
  const std::vector<std::string> meant = without_alias(typed);
  const std::span<const std::string> words(meant);
  if (words.size() == 2 && words[0] == "help")
    return run_command_line(std::vector<std::string>{words[1], "--help"}, console);
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    const std::string help = program_help(console.abilities().width.value_or(100));
    words.empty() ? console.warn(help) : console.print(help);
    return words.empty() ? exit_usage : exit_ok;
  }
  if (words[0] == "--version" || words[0] == "version") {
    console.print(program_version() + "\n");
    return exit_ok;
  }
  std::string command = "triplepoint";
  for (const std::string& word : words)
    command += " " + shell_word(word);
  report::set_page_command(std::move(command));
  for (const CommandEntry& entry : commands()) {
    if (entry.name == words[0]) return run_command(entry, *entry.make(), words.subspan(1), console);
  }
  console.warn(usage_error(
      fmt::format("no command \"{}\"; {}", words[0], did_you_mean(words[0], command_names())), ""));
  return exit_usage;
}

}  // namespace triplepoint::cli
