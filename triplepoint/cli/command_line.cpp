// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/command_line.h"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
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

/// What is to be done, once the words have been understood.
struct Call {
  const CommandEntry* entry = nullptr;
  bool help = false;
};

std::string usage_error(std::string_view what, std::string_view command) {
  return fmt::format("triplepoint: {}\n(triplepoint {}{}--help shows what there is)\n", what,
                     command, command.empty() ? "" : " ");
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands())
    names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> flag_names(const std::vector<Argument>& arguments) {
  std::vector<std::string> names = {"--help"};
  for (const Argument& argument : arguments) {
    if (!argument.is_flag()) continue;
    for (std::string& name : CLI::detail::split(argument.names, ','))
      names.push_back(name);
  }
  return names;
}

bool is_switch(const Argument& argument) {
  return argument.is_flag() && argument.value.empty();
}

CLI::Option* add_argument(CLI::App& app, const Argument& argument) {
  if (is_switch(argument)) return app.add_flag(argument.names);
  const std::string names = argument.is_flag() ? argument.names : "word_" + argument.names;
  CLI::Option* option = app.add_option(names);
  option->type_size(1)->expected(1, argument.repeats ? CLI::detail::expected_max_vector_size : 1);
  // Else a word takes those of the next one. A flag that repeats takes one word each time.
  option->allow_extra_args(argument.repeats && !argument.is_flag());
  if (argument.is_flag() && !argument.repeats)
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // store_next refuses it
  return option;
}

/// Stores what was said, in the order in which it was said: some words are about those after them.
/// The first that a reader refuses ends it.
class Storing {
 public:
  void add(const CLI::Option* option, const Argument& argument) { said_[option] = {&argument}; }

  Result<void> store(const CLI::App& app) {
    for (const CLI::Option* option : app.parse_order())
      if (const auto said = said_.find(option); said != said_.end())
        TPT_TRY(store_next(*option, said->second));
    return {};
  }

 private:
  struct Said {
    const Argument* argument = nullptr;
    std::size_t next = 0;
  };

  static Result<void> store_next(const CLI::Option& option, Said& said) {
    const Argument& argument = *said.argument;
    const std::size_t place = said.next++;
    if (place >= option.results().size()) return {};
    if (argument.is_flag() && !argument.repeats && !is_switch(argument) &&
        option.results().size() > 1)
      return error(fmt::format("{} was given {} times (it takes one value); keep one of them",
                               argument.names, option.results().size()));
    return store_text(argument, is_switch(argument) ? "" : option.results()[place]);
  }

  std::map<const CLI::Option*, Said> said_;
};

/// A flag whose help has every word of an unknown one: --tp of --tensor-parallel.
std::optional<std::string> flag_by_help(std::string_view unknown,
                                        const std::vector<Argument>& arguments) {
  const std::vector<std::string> words =
      CLI::detail::split(std::string(unknown.substr(unknown.find_first_not_of('-'))), '-');
  for (const Argument& argument : arguments) {
    if (!argument.is_flag()) continue;
    const std::string text = lower_case(argument.names + " " + argument.help);
    if (std::ranges::all_of(words, [&](const std::string& word) {
          return text.find(lower_case(word)) != std::string::npos;
        }))
      return argument.names.substr(0, argument.names.find(','));
  }
  return std::nullopt;
}

/// A flag of which an unknown one is an item: plan's --fix takes tp, pp, ...
std::optional<std::string> flag_that_lists(std::string_view unknown,
                                           const std::vector<Argument>& arguments) {
  const std::string item(unknown.substr(std::min(unknown.find_first_not_of('-'), unknown.size())));
  for (const Argument& argument : arguments) {
    if (!argument.is_flag() || argument.value != "LIST") continue;
    const std::vector<std::string> words = CLI::detail::split(argument.help, ' ');
    if (std::ranges::find(words, item) != words.end())
      return argument.names.substr(0, argument.names.find(','));
  }
  return std::nullopt;
}

/// The first word that no argument of the command explains.
std::optional<std::string> left_over(CLI::App& app, const std::vector<Argument>& arguments) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return std::nullopt;
  const std::string word = rest.front().substr(0, rest.front().find('='));
  if (!word.starts_with("-")) {
    return fmt::format("unexpected word \"{}\" (the command takes no more of them)", word);
  }
  const std::vector<std::string> known = flag_names(arguments);
  auto close = flag_that_lists(word, arguments);
  if (!close) close = closest_word(word, known);
  if (!close && word.starts_with("--")) close = flag_by_help(word, arguments);
  if (close) return fmt::format("unknown flag {}; did you mean {}?", word, *close);
  const bool of_job = std::ranges::any_of(JobFlags().arguments(),
                                          [&](const auto& each) { return has_name(each, word); });
  return fmt::format("unknown flag {}{}", word,
                     of_job               ? " (it describes a job; name a file of one, job.toml)"
                     : word == "--figure" ? " (papers/micro25 makes the paper's figures)"
                                          : "");
}

/// The sentence of a flag without its value; the parser's message names no placeholder.
std::string value_missing(std::string_view message, const std::vector<Argument>& arguments) {
  const std::string name(message.substr(0, message.find(':')));
  for (const Argument& argument : arguments) {
    const std::vector<std::string> names = CLI::detail::split(argument.names, ',');
    if (argument.is_flag() && !argument.value.empty() &&
        std::ranges::find(names, name) != names.end())
      return fmt::format("{} needs a value: {} {}", name, name, argument.value);
  }
  return std::string(message);
}

/// Notes which required words were given.
std::optional<std::string> missing_word(CLI::App& app, const std::vector<Argument>& arguments) {
  for (const Argument& argument : arguments) {
    if (!argument.is_flag() && argument.required && app.count("word_" + argument.names) == 0) {
      return fmt::format("{} is missing{}{}", argument.names,
                         argument.choices.empty() ? "" : "; known are ",
                         joined(argument.choices, ", "));
    }
  }
  return std::nullopt;
}

/// Words behind "--" are no flags, whatever they look like; they go to the argument that takes
/// many.
Result<bool> take_words_behind_dashes(const std::vector<Argument>& arguments,
                                      std::span<const std::string> words) {
  const auto many = std::find_if(arguments.begin(), arguments.end(), [](const Argument& argument) {
    return !argument.is_flag() && argument.repeats;
  });
  if (many == arguments.end()) return error("nothing is expected behind --");
  for (const std::string& word : words)
    TPT_TRY(many->store(word));
  return !words.empty();
}

/// Fills the command's variables. Says whether help was asked for instead, or what is wrong.
Result<bool> read_arguments(const std::vector<Argument>& arguments,
                            std::span<const std::string> words) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  std::optional<std::string> problem;
  Storing storing;
  for (const Argument& argument : arguments)
    storing.add(add_argument(app, argument), argument);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> flags(words.begin(), dashes);
  try {
    app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));  // CLI11 wants them reversed
  } catch (const CLI::ArgumentMismatch& wrong) {
    problem = value_missing(wrong.what(), arguments);
  } catch (const CLI::ParseError& wrong) {
    problem = wrong.what();
  }
  if (const Result<void> stored = storing.store(app); !stored) problem = stored.error().what;
  if (help) return true;
  if (!problem) problem = left_over(app, arguments);
  bool has_words = false;
  if (!problem && dashes != words.end()) {
    const auto behind = take_words_behind_dashes(
        arguments, words.subspan(static_cast<std::size_t>(dashes - words.begin()) + 1));
    if (!behind) problem = behind.error().what;
    has_words = behind.value_or(false);
  }
  if (!problem && !has_words) problem = missing_word(app, arguments);
  if (problem) return error(*problem);
  return false;
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
    return error(fmt::format("cannot write {} ({}: {}); name another place with -o", output,
                             at.string(), failed.message()));
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
  std::vector<Argument> arguments = command.arguments();
  Result<void> room;
  for (Argument& each : arguments)
    if (has_name(each, "--output"))
      each.store = [&room, store = each.store,
                    holds_many = each.value == "FOLDER" || each.value == "DIR"](auto text) {
        room = require_room_for(std::string(text), holds_many && !text.ends_with(".html"));
        return store(text);
      };
  const Result<bool> help = read_arguments(arguments, words);
  if (!help) {
    console.warn(usage_error(fmt::format("{}: {}", entry.name, help.error().what), entry.name));
    return exit_usage;
  }
  if (*help) {
    console.print(command_help(entry, console.abilities().width.value_or(100)));
    return exit_ok;
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

int run_command_line(std::span<const std::string> words, tui::Console& console) {
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
