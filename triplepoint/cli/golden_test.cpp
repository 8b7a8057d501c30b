// SPDX-License-Identifier: Apache-2.0
// Whole outputs, byte for byte. To accept changed ones: TPT_UPDATE_GOLDEN=1 cli_test -tc="golden*"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/installation.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_line.h"

namespace triplepoint::cli {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), with);
  return text;
}

/// Messages name the data folder and the tree, which lie elsewhere on every machine.
std::string without_folder(std::string text) {
  return replaced(replaced(std::move(text), data_folder()->string(), "DATA"), TPT_SOURCE_DIR "/",
                  "");
}

std::string printed(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  run_command_line(words, console);
  return without_folder(out.str() + err.str());
}

void check_text(const std::string& name, const std::string& text) {
  const Path file = Path(TPT_SOURCE_DIR) / "tests/golden" / (name + ".txt");
  if (std::getenv("TPT_UPDATE_GOLDEN") != nullptr) {
    REQUIRE(make_folder(file.parent_path()));
    REQUIRE(write_file_atomically(file, text));
  }
  const auto expected = read_file(file);
  REQUIRE(expected);
  CHECK(text == *expected);
}

/// `folder` is where the command writes; its name is left out as well.
void check_golden(const std::string& name, const std::vector<std::string>& words,
                  const std::string& folder = {}) {
  std::string text = printed(words);
  if (!folder.empty()) text = replaced(std::move(text), folder, "");
  check_text(name, text);
}

/// A group of flags that `simulate` has alike, as one line: its text stands in one golden file.
std::string without_groups_of(const std::string& simulate, const std::string& help) {
  std::string text;
  for (std::size_t begin = 0; begin < help.size();) {
    const std::size_t end = std::min(help.find("\n\n", begin), help.size() - 1);
    const std::string block = help.substr(begin, end - begin);
    const std::size_t title = block.find(":\n");
    const bool is_group = title != std::string::npos && block.find('\n') == title + 1;
    const bool shared = is_group && simulate.find("\n\n" + block + "\n") != std::string::npos;
    text += (shared ? block.substr(0, title) + ": as of simulate" : block) + "\n\n";
    begin = end + 2;
  }
  text.pop_back();
  return text;
}

TEST_CASE("golden: help") {
  check_golden("help", {"--help"});
  const std::string simulate = printed({"simulate", "--help"});
  for (const CommandEntry& entry : commands()) {
    const std::string name(entry.name), help = printed({name, "--help"});
    check_text("help-" + name, name == "simulate" ? help : without_groups_of(simulate, help));
  }
}

const std::vector<std::string> small_job = {"--model", "llama3-8b", "--cluster", "dgx-h100",
                                            "--gbs",   "64",        "--nodes",   "2"};

std::vector<std::string> command(std::vector<std::string> first,
                                 const std::vector<std::string>& job,
                                 const std::vector<std::string>& last = {}) {
  first.insert(first.end(), job.begin(), job.end());
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

// Predictions with all their digits as printed. A change of the model changes these files; the diff
// is read before it is committed.
TEST_CASE("golden: simulate") {
  check_golden("simulate",
               command({"simulate"}, small_job, {"--tp", "2", "--pp", "2", "--vpp", "4"}));
  check_golden("simulate-fault",
               command({"simulate"}, small_job, {"--tp", "8", "--fault", "gpu=3,power=0.5"}));
}

TEST_CASE("golden: plan") {
  check_golden("plan", command({"plan"}, small_job, {"--top", "3"}));
}

TEST_CASE("golden: compare") {
  const ScratchFolder folder;
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  const auto made = [&](const std::string& name, const std::vector<std::string>& flags) {
    CHECK(run_command_line(command(command({"simulate"}, small_job, {"--tp", "8"}), flags,
                                   {"-o", folder.path(name)}),
                           console) == exit_ok);
    return folder.path(name);
  };
  const std::string cool = made("cool.run", {}), warm = made("warm.run", {"--ambient", "35 C"});
  check_golden("compare", {"compare", cool, warm}, folder.path(""));
}

TEST_CASE("golden: characterize") {
  const ScratchFolder folder;
  check_golden("characterize",
               {"characterize", TPT_SOURCE_DIR "/examples/microbatches.toml", "-o",
                folder.path("study"), "--pages", "none"},
               folder.path(""));
}

TEST_CASE("golden: validate") {
  // Lines are wrapped with the file's name in them, which must not depend on where the tree lies.
  std::filesystem::current_path(TPT_SOURCE_DIR);
  const std::string rows = "examples/measured_runs.csv";
  check_golden("validate", {"validate", rows});
  check_golden("validate-csv", {"validate", rows, "--format", "csv"});
}

TEST_CASE("golden: groups of GPUs") {
  check_golden("place-groups", {"place", "--from", TPT_SOURCE_DIR "/tests/golden/smi.csv"});
}

TEST_CASE("golden: models") {
  check_golden("list-models", {"show", "models"});
}

TEST_CASE("golden: what went wrong") {
  check_golden("error-command", {"simulat"});
  check_golden("error-flag", {"simulate", "--modle", "gpt3-175b"});
  check_golden("error-model", {"simulate", "--model", "gpt3-175", "--cluster", "hgx-h200"});
  check_golden("error-table", {"validate", TPT_SOURCE_DIR "/tests/golden/no-table.csv"});
  check_golden("error-job", {"simulate", "--model", "llama3-70b", "--cluster", "hgx-h200",
                             "--nodes", "4", "--pp", "32", "--gbs", "128"});
}

}  // namespace
}  // namespace triplepoint::cli
