// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {

std::optional<std::string> ShellCommand::variable(const std::string& name) const {
  return value_at(variables, name);
}

bool ShellCommand::is_training() const {
  return std::ranges::count_if(words, [](const ShellWord& word) {
           const std::string option = word.text.substr(0, word.text.find('='));
           return option == "--num-layers" || option == "--hidden-size" ||
                  option == "--seq-length" || option == "--num-attention-heads" ||
                  option == "--micro-batch-size" || option == "--num_layers";
         }) >= 2;
}

std::size_t ShellCommand::first_argument() const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py")) return i + 1;
    if (words[i].text != "-m" || i + 1 >= words.size()) continue;
    const std::string& module = words[i + 1].text;
    const bool launcher = module.starts_with("torch.distributed") ||
                          module.starts_with("accelerate") || module.starts_with("deepspeed");
    if (!launcher) return i + 2;
  }
  return 0;
}

bool is_shell_script(const std::string& word) {
  return !word.starts_with('-') &&
         (word.ends_with(".sh") || word.ends_with(".sbatch") || word.ends_with(".slurm"));
}

std::string ShellCommand::started_text() const {
  const std::size_t end = first_argument() > 0 ? first_argument() : words.size();
  for (std::size_t i = 0; i < end; ++i) {
    const std::string& text = words[i].text;
    const std::string next = i + 1 < end ? words[i + 1].text : "";
    const bool shell = text.ends_with("bash") || text == "sh" || text.ends_with("/sh");
    if (shell && next.starts_with('-') && contains(next, 'c'))
      return fmt::format("{} {} runs a text", text, next);
    if (contains(text, ".py ") || contains(text, " -m "))
      return "a command stands inside of a word";
    if (is_shell_script(text)) return fmt::format("{} is another script", text);
  }
  return {};
}

namespace {

/// Started by what starts one process a device; others prepare data and the like.
bool is_distributed(const ShellCommand& command) {
  return std::ranges::any_of(command.words, [](const ShellWord& word) {
    const std::string name = word.text.substr(word.text.rfind('/') + 1);
    return name == "torchrun" || name == "deepspeed" || name == "accelerate" ||
           name.starts_with("torch.distributed.");
  });
}

}  // namespace

Result<ShellCommand> choose_launch(std::vector<Launch> launches, std::string_view name) {
  std::vector<Launch> chosen;
  enum class Needs { sizes, launcher, program, anything };
  for (const Needs needs : {Needs::sizes, Needs::launcher, Needs::program, Needs::anything}) {
    for (const Launch& launch : launches) {
      const bool program = launch.command.first_argument() > 0;
      const bool fits = needs == Needs::sizes      ? launch.command.is_training()
                        : needs == Needs::launcher ? program && is_distributed(launch.command)
                        : needs == Needs::program  ? program
                                                   : true;
      const bool twice = std::ranges::any_of(
          chosen, [&](const Launch& other) { return other.command.words == launch.command.words; });
      if (fits && !twice) chosen.push_back(launch);
    }
    if (needs == Needs::anything && chosen.size() > 1)  // of mv, ln and $RUN the last may train
      std::erase_if(chosen,
                    [](const Launch& each) { return each.command.words.front().doubt.empty(); });
    if (!chosen.empty()) break;
  }
  if (chosen.size() > 1) {
    std::vector<std::string> lines;
    for (const Launch& launch : chosen)
      lines.push_back(launch.line > 0 ? fmt::format("line {}", launch.line)
                                      : launch.command.words.front().text);
    return error(
        "{}: {} commands that train are launched ({}), and a job is one; leave one in a copy", name,
        chosen.size(), fmt::join(lines, ", "));
  }
  if (chosen.empty()) return ShellCommand();
  Launch& launch = chosen.front();
  if (!launch.doubt.empty())
    return error(
        "{}:{}: the training is launched {} (whether and how often is not known "
        "without running the script); {}",
        name, launch.line, launch.doubt, run_it_instead);
  return std::move(launch.command);
}

}  // namespace triplepoint::formats
