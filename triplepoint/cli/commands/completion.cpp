// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

std::vector<std::string> names_of(const Argument& argument) {
  return *split_list(argument.names);
}

/// The shell command that lists the words an argument takes; empty where there is none.
std::string lister(Words words) {
  switch (words) {
    case Words::models:
      return "triplepoint list models --names";
    case Words::clusters:
      return "triplepoint list clusters --names";
    case Words::stacks:
      return "triplepoint list stacks --names";
    case Words::optimizers:
      return "triplepoint list optimizers --names";
    case Words::studies:
      return "triplepoint list studies --names";
    default:
      return "";
  }
}

std::string all_commands() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands())
    names.emplace_back(entry.name);
  return joined(names);
}

// ---- bash

/// The body of `case $previous` for the flags of one command that take a value.
std::string bash_values(const std::vector<Argument>& arguments) {
  std::string body;
  for (const Argument& argument : arguments) {
    if (!argument.is_flag() || argument.value.empty()) continue;
    std::string words;
    if (!argument.choices.empty()) words = joined(argument.choices);
    if (!lister(argument.words).empty())
      words = fmt::format("$({} 2>/dev/null)", lister(argument.words));
    const std::string action =
        words.empty() ? "_filedir 2>/dev/null || COMPREPLY=($(compgen -f -- \"$current\"))"
                      : fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))", words);
    body += fmt::format("        {}) {}; return;;\n", joined(names_of(argument), "|"), action);
  }
  return body;
}

std::string bash_words(const std::vector<Argument>& arguments) {
  std::string words;
  for (const Argument& argument : arguments) {
    if (argument.is_flag()) {
      words += joined(names_of(argument)) + " ";
    } else if (!lister(argument.words).empty()) {
      words += fmt::format("$({} 2>/dev/null) ", lister(argument.words));
    } else if (!argument.choices.empty()) {
      words += joined(argument.choices) + " ";
    }
  }
  return words + "--help";
}

bool takes_files(const std::vector<Argument>& arguments) {
  for (const Argument& argument : arguments) {
    if (!argument.is_flag() && (argument.words == Words::files || argument.words == Words::folders))
      return true;
  }
  return false;
}

std::string bash_script() {
  std::string script =
      "# bash completion of triplepoint; made by: triplepoint completion bash\n"
      "_triplepoint() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"" +
      all_commands() +
      " --help --version\" -- \"$current\")); return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const CommandEntry& entry : commands()) {
    const auto command = entry.make();
    const std::vector<Argument> arguments = command->arguments();
    script += fmt::format("    {})\n      case $previous in\n{}      esac\n", entry.name,
                          bash_values(arguments));
    script += fmt::format("      COMPREPLY=($(compgen -W \"{}\" -- \"$current\"){});;\n",
                          bash_words(arguments),
                          takes_files(arguments) ? " $(compgen -f -- \"$current\")" : "");
  }
  return script + "  esac\n}\ncomplete -o filenames -F _triplepoint triplepoint\n";
}

// ---- zsh

std::string zsh_quoted(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '\'')
      result += "'\\''";
    else if (c == '[' || c == ']' || c == ':')
      result += std::string("\\") + c;
    else
      result += c;
  }
  return result;
}

std::string zsh_action(const Argument& argument) {
  if (!argument.choices.empty()) return fmt::format("({})", joined(argument.choices));
  if (!lister(argument.words).empty())
    return fmt::format("($({} 2>/dev/null))", lister(argument.words));
  return argument.words == Words::none ? " " : "_files";
}

std::string zsh_argument(const Argument& argument) {
  std::string lines;
  if (!argument.is_flag()) {
    return fmt::format("        '{}:{}:{}' \\\n", argument.repeats ? "*" : "", argument.names,
                       zsh_action(argument));
  }
  for (const std::string& name : names_of(argument)) {
    const std::string value =
        argument.value.empty() ? "" : fmt::format(":{}:{}", argument.value, zsh_action(argument));
    lines += fmt::format("        '{}[{}]{}' \\\n", name, zsh_quoted(argument.help), value);
  }
  return lines;
}

std::string zsh_script() {
  std::string script =
      "#compdef triplepoint\n# made by: triplepoint completion zsh\n"
      "_triplepoint() {\n  local -a verbs=(\n";
  for (const CommandEntry& entry : commands()) {
    script += fmt::format("    '{}:{}'\n", entry.name, zsh_quoted(entry.summary));
  }
  script +=
      "  )\n  if (( CURRENT == 2 )); then _describe command verbs; return; fi\n"
      "  local verb=$words[2]; shift words; (( CURRENT-- ))\n  case $verb in\n";
  for (const CommandEntry& entry : commands()) {
    script += fmt::format("    {})\n      _arguments \\\n", entry.name);
    const auto command = entry.make();
    for (const Argument& argument : command->arguments())
      script += zsh_argument(argument);
    script += "        '--help[show the help]';;\n";
  }
  return script + "  esac\n}\n_triplepoint \"$@\"\n";
}

// ---- fish

std::string fish_quoted(std::string_view text) {
  std::string result;
  for (char c : text)
    result += c == '\'' ? std::string("\\'") : std::string(1, c);
  return result;
}

std::string fish_argument(std::string_view command, const Argument& argument) {
  std::string words;
  if (!argument.choices.empty()) words = fmt::format(" -a '{}'", joined(argument.choices));
  if (!lister(argument.words).empty())
    words = fmt::format(" -a '({} 2>/dev/null)'", lister(argument.words));
  const std::string head =
      fmt::format("complete -c triplepoint -n '__fish_seen_subcommand_from {}'", command);
  if (!argument.is_flag()) return words.empty() ? "" : head + words + "\n";
  std::string line = head;
  for (const std::string& name : names_of(argument)) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!argument.value.empty()) line += argument.words == Words::files ? " -r" : " -x";
  return line + words + fmt::format(" -d '{}'\n", fish_quoted(argument.help));
}

std::string fish_script() {
  std::string script = "# made by: triplepoint completion fish\n";
  for (const CommandEntry& entry : commands()) {
    script += fmt::format("complete -c triplepoint -n __fish_use_subcommand -x -a {} -d '{}'\n",
                          entry.name, fish_quoted(entry.summary));
    const auto command = entry.make();
    for (const Argument& argument : command->arguments())
      script += fish_argument(entry.name, argument);
  }
  return script;
}

class Completion : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {{.names = "SHELL",
             .help = "which shell",
             .choices = {"bash", "zsh", "fish"},
             .required = true,
             .store = into(shell_)}};
  }
  Result<int> run(tui::Console& console) override {
    console.print(shell_ == "bash"  ? bash_script()
                  : shell_ == "zsh" ? zsh_script()
                                    : fish_script());
    return exit_ok;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion() {
  return std::make_unique<Completion>();
}

}  // namespace triplepoint::cli
