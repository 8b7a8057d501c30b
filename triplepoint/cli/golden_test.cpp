// SPDX-License-Identifier: Apache-2.0
// Whole outputs, byte for byte. To accept changed ones: TPT_UPDATE_GOLDEN=1 cli_test -tc="golden*"
#include <cstdlib>
#include <regex>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/data_folder.h"
#include "triplepoint/base/files.h"

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

void check_golden(const std::string& name, const std::vector<std::string>& words) {
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  run_command_line(words, console);
  const std::string text = without_folder(out.str() + err.str());
  const Path file = Path(TPT_SOURCE_DIR) / "tests/golden" / (name + ".txt");
  if (std::getenv("TPT_UPDATE_GOLDEN") != nullptr) {
    REQUIRE(make_folder(file.parent_path()));
    REQUIRE(write_file_atomically(file, text));
  }
  const auto expected = read_file(file);
  REQUIRE(expected);
  CHECK(text == *expected);
}

TEST_CASE("golden: help") {
  check_golden("help", {"--help"});
  for (const CommandEntry& entry : commands()) {
    check_golden("help-" + std::string(entry.name), {std::string(entry.name), "--help"});
  }
}

/// Numbers become #, and what stands around them shrinks: predictions move with every calibration,
/// what is said of them does not.
std::string without_numbers(const std::string& text) {
  const std::string bare =
      std::regex_replace(text, std::regex("-?[0-9][0-9.,]*(e[+-]?[0-9]+)?"), "#");
  return std::regex_replace(bare, std::regex(" +"), " ");
}

void check_golden_without_numbers(const std::string& name, const std::vector<std::string>& words) {
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  CHECK(run_command_line(words, console) == exit_ok);
  const Path file = Path(TPT_SOURCE_DIR) / "tests/golden" / (name + ".txt");
  const std::string text = without_numbers(without_folder(out.str() + err.str()));
  if (std::getenv("TPT_UPDATE_GOLDEN") != nullptr) REQUIRE(write_file_atomically(file, text));
  const auto expected = read_file(file);
  REQUIRE(expected);
  CHECK(text == *expected);
}

TEST_CASE("golden: validate") {
  const std::string rows = TPT_SOURCE_DIR "/examples/measured_runs.csv";
  check_golden_without_numbers("validate", {"validate", rows, "--worst", "0"});
  check_golden_without_numbers("validate-csv", {"validate", rows, "--format", "csv"});
}

TEST_CASE("golden: groups of GPUs") {
  check_golden("place-groups", {"place", "--from", TPT_SOURCE_DIR "/tests/golden/smi.csv"});
}

TEST_CASE("golden: models") {
  check_golden("list-models", {"list", "models"});
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
