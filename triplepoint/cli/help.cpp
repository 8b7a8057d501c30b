// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/text.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/tui/table_text.h"

namespace triplepoint::cli {
namespace {

constexpr std::size_t help_column = 34;  // where explanations begin
constexpr std::size_t widest_help = 100;

/// Verbs by what a person wants to do.
struct VerbGroup {
  const char* title;
  std::vector<std::string_view> verbs;
};

const std::vector<VerbGroup>& verb_groups() {
  static const std::vector<VerbGroup> groups = {
      {"Predict", {"simulate", "plan", "place", "steer", "characterize", "bench"}},
      {"Measure",
       {"record", "train", "merge", "top", "snapshot", "exporter", "doctor", "discover"}},
      {"Look", {"report", "compare", "serve", "trace"}},
      {"Data", {"import", "export", "list", "show", "validate", "calibrate"}},
      {"Shell", {"completion"}}};
  return groups;
}

const CommandEntry& entry_named(std::string_view verb) {
  const auto all = commands();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const CommandEntry& entry) { return entry.name == verb; });
  TPT_EXPECT(found != all.end());
  return *found;
}

std::string spaced_names(std::string names) {
  for (std::size_t at = names.find(','); at != std::string::npos; at = names.find(',', at + 2)) {
    names.insert(at + 1, " ");
  }
  return names;
}

/// "  --tp, --tensor-model-parallel-size N   ranks per ...", wrapped.
std::string argument_line(const Argument& argument, std::size_t width) {
  std::string head = "  " + (argument.is_flag() ? spaced_names(argument.names) : argument.names);
  if (argument.is_flag() && !argument.value.empty()) head += " " + argument.value;
  std::string help = argument.help;
  if (!argument.choices.empty()) help += ": " + joined(argument.choices, ", ");
  const std::string indent(help_column, ' ');
  if (tui::display_width(head) + 2 > help_column) {
    return head + "\n" + indent + tui::wrap(indent + help, width, indent).substr(help_column) +
           "\n";
  }
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
  for (std::string line; std::getline(lines, line);) {
    result += (line.starts_with(" ") ? line : tui::wrap(line, width)) + "\n";
  }
  return result;
}

}  // namespace

std::string program_help(std::size_t width) {
  width = std::min(width, widest_help);
  std::string help =
      "Power, performance and heat of distributed LLM training.\n\n"
      "usage: triplepoint COMMAND [words and flags]\n\n";
  for (const VerbGroup& group : verb_groups()) {
    help += fmt::format("{}:\n", group.title);
    for (const std::string_view verb : group.verbs)
      help += tui::wrap(fmt::format("  {:<14}{}", verb, entry_named(verb).summary), width,
                        std::string(16, ' ')) +
              "\n";
    help += "\n";
  }
  help +=
      "  triplepoint COMMAND --help   help of a command\n"
      "  triplepoint --version        print the version\n\n";
  return help + paragraphs(
                    "First steps:\n"
                    "  triplepoint list models\n"
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
  std::vector<std::string> groups;
  for (const Argument& argument : arguments) {
    if (std::find(groups.begin(), groups.end(), argument.group) == groups.end()) {
      groups.push_back(argument.group);
    }
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
