// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <sstream>

#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/command_line.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

std::vector<std::string> names_of(const Argument& argument) {
  return *split_list(argument.names);
}

/// The kinds that `triplepoint show` lists for the argument.
std::vector<std::string> kinds_of(Words words) {
  constexpr std::array lists = {"",       "",           "",        "models",  "clusters",
                                "stacks", "optimizers", "records", "studies", ""};
  if (words == Words::library)
    return {"models", "gpus", "clusters", "stacks", "optimizers", "records", "studies"};
  const std::string list = lists[as_size(words)];
  return list.empty() ? std::vector<std::string>() : std::vector<std::string>{list};
}

/// What a shell offers for the argument: its choices, or what commands list that the
/// shell runs.
std::string offered(const Argument& argument) {
  std::vector<std::string> lists = mapped(kinds_of(argument.words), [&](const std::string& kind) {
    return fmt::format("triplepoint show {} --names 2>/dev/null", kind);
  });
  if (lists.empty()) return joined(argument.choices);
  const bool is_kind_too = argument.words == Words::library;
  return fmt::format("{}$({})", is_kind_too ? joined(kinds_of(argument.words)) + " " : "",
                     joined(lists, "; "));
}

bool takes_files(const Argument& argument) {
  return argument.words != Words::none;
}

std::string all_commands() {
  const std::vector<std::string> names = mapped<std::string>(commands(), &CommandEntry::name);
  return joined(names);
}

constexpr std::string_view bash_files = " $(compgen -f -- \"$current\")";

std::string bash_words(const std::string& words) {
  return words.empty() ? "" : fmt::format("$(compgen -W \"{}\" -- \"$current\")", words);
}

/// The body of `case $previous` for the flags of one command that take a value.
std::string bash_values(const std::vector<Argument>& arguments) {
  std::string body;
  for (const Argument& argument : arguments) {
    if (!argument.is_flag() || argument.value.empty()) continue;
    body += fmt::format("        {}) COMPREPLY=({}{}); return;;\n", joined(names_of(argument), "|"),
                        bash_words(offered(argument)), takes_files(argument) ? bash_files : "");
  }
  return body;
}

/// The flags of a command, and what its words may be.
std::string bash_all(const std::vector<Argument>& arguments) {
  std::string words;
  for (const Argument& argument : arguments) {
    const std::string some = argument.is_flag() ? joined(names_of(argument)) : offered(argument);
    if (!some.empty()) words += some + " ";
  }
  return words + "--help";
}

bool a_word_takes_files(const std::vector<Argument>& arguments) {
  return std::ranges::any_of(arguments, [](const Argument& argument) {
    return !argument.is_flag() && takes_files(argument);
  });
}

std::string bash_script() {
  std::string script =
      "# completion of triplepoint; made by: triplepoint completion\n"
      "_triplepoint() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"" +
      all_commands() +
      " --help --version\" -- \"$current\")); return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const CommandEntry& entry : commands()) {
    const Arguments arguments = entry.make()->arguments();
    script += fmt::format("    {})\n      case $previous in\n{}      esac\n", entry.name,
                          bash_values(arguments));
    script += fmt::format("      COMPREPLY=({}{});;\n", bash_words(bash_all(arguments)),
                          a_word_takes_files(arguments) ? bash_files : "");
  }
  return script + "  esac\n}\ncomplete -o filenames -F _triplepoint triplepoint\n";
}

class Completion : public Command {
 public:
  Arguments arguments() override {
    return Arguments().word("SHELL", "which shell", into(shell_),
                            {.choices = {"bash", "zsh"}, .required = true});
  }
  Result<int> run(tui::Console& console) override {
    console.print(completion_script(shell_));
    return exit_ok;
  }

 private:
  std::string shell_;
};

constexpr std::size_t help_column = 34;  // where explanations begin
constexpr std::size_t widest_help = 100;

std::string spaced_names(std::string names) {
  for (std::size_t at = names.find(','); at != std::string::npos; at = names.find(',', at + 2))
    names.insert(at + 1, " ");
  return names;
}

/// "  --tp, --tensor-model-parallel-size N   ranks per ...", wrapped.
std::string argument_line(const Argument& argument, std::size_t width) {
  std::string head = "  " + (argument.is_flag() ? spaced_names(argument.names) : argument.names);
  if (argument.is_flag() && !argument.value.empty()) head += " " + argument.value;
  std::string help = argument.help;
  if (!argument.choices.empty()) help += ": " + joined(argument.choices, ", ");
  const std::string indent(help_column, ' ');
  if (tui::display_width(head) + 2 > help_column)
    return head + "\n" + indent + tui::wrap(indent + help, width, indent).substr(help_column) +
           "\n";
  head.resize(help_column, ' ');
  return tui::wrap(head + help, width, indent) + "\n";
}

std::string usage_line(const CommandEntry& entry, const std::vector<Argument>& arguments) {
  std::string usage = fmt::format("triplepoint {}", entry.name);
  for (const Argument& argument : arguments) {
    if (argument.is_flag()) continue;
    const std::string word = argument.names + (argument.repeats ? "..." : "");
    usage += argument.required ? " " + word : " [" + word + "]";
  }
  return usage + " [flags]";
}

/// Each line of the text wrapped on its own; lines that begin with a space stay as they are.
std::string paragraphs(std::string_view text, std::size_t width) {
  std::istringstream lines{std::string(text)};
  std::string result;
  for (std::string line; std::getline(lines, line);)
    result += (line.starts_with(" ") ? line : tui::wrap(line, width)) + "\n";
  return result;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  return (shell == "zsh" ? "autoload -U bashcompinit && bashcompinit\n" : "") + bash_script();
}

std::unique_ptr<Command> make_completion() {
  return std::make_unique<Completion>();
}

std::string program_help(std::size_t width) {
  width = std::min(width, widest_help);
  std::string help =
      "Power, performance and heat of distributed LLM training.\n\n"
      "usage: triplepoint COMMAND [words and flags]\n\n";
  for (const char* group : {"Predict", "Measure", "Look", "Data", "Shell"}) {
    help += fmt::format("{}:\n", group);
    for (const CommandEntry& entry : commands())
      if (entry.group == group)
        help += tui::wrap(fmt::format("  {:<14}{}", entry.name, entry.summary), width,
                          std::string(16, ' ')) +
                "\n";
    help += "\n";
  }
  help +=
      "  triplepoint COMMAND --help   help of a command\n"
      "  triplepoint --version        print the version\n\n";
  return help + paragraphs(
                    "First steps:\n"
                    "  triplepoint show models\n"
                    "  triplepoint simulate --model gpt3-175b --cluster hgx-h200 --nodes 4 --tp 8 "
                    "--pp 4 --gbs 128\n"
                    "  triplepoint characterize paper/h200 -o study\n",
                    width);
}

std::string command_help(const CommandEntry& entry, std::size_t width) {
  width = std::min(width, widest_help);
  const std::unique_ptr<Command> command = entry.make();
  std::vector<Argument> arguments = command->arguments();
  std::string help = tui::wrap(std::string(entry.summary), width) +
                     "\n\nusage: " + usage_line(entry, arguments) + "\n\n" +
                     paragraphs(entry.details, width);
  std::string meanings;
  for (const Alias& alias : aliases())
    if (split(alias.meaning, ' ').front() == entry.name)
      meanings += fmt::format("  triplepoint {} means {} {}\n", alias.typed, alias.meaning,
                              alias.flag.empty() ? "..." : alias.flag);
  if (!meanings.empty()) help += "\n" + meanings;
  std::vector<std::string> groups;
  for (const Argument& argument : arguments) {
    if (!holds(groups, argument.group)) groups.push_back(argument.group);
  }
  for (const std::string& group : groups) {
    help += "\n" + group + ":\n";
    for (const Argument& argument : arguments) {
      if (argument.group == group) help += argument_line(argument, width);
    }
  }
  return help;
}

}  // namespace triplepoint::cli
