// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/quoting.h"

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

TEST_CASE("a word of the shell is quoted where the shell would take it apart") {
  CHECK(shell_word("gpt3-175b") == "gpt3-175b");
  CHECK(shell_word("--steps=3") == "--steps=3");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("=ls") == "'=ls'");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("$(touch x)'\n`y`") == "'$(touch x)'\\''\n`y`'");
}

TEST_CASE("a comment stays on its line") {
  CHECK(comment_text("a\nrm -rf /\r\tb\x1b[2J") == "a rm -rf /  b [2J");
  CHECK(comment_text("a\xe2\x80\xa8"
                     "b\xc2\x85"
                     "c") == "a b c");
}

TEST_CASE("sbatch takes a path as it is, and no pattern in it") {
  CHECK(sbatch_path("/a/logs/x.log") == "/a/logs/x.log");
  CHECK(sbatch_path("/a b/%j\n.log") == "'/a b/%%j .log'");
}

TEST_CASE("TOML and YAML texts have no end but their own") {
  CHECK(toml_text("a\"\n[evil]\\") == "\"a\\\"\\n[evil]\\\\\"");
  CHECK(yaml_text("plain-word") == "plain-word");
  CHECK(yaml_text("yes") == "\"yes\"");
  CHECK(yaml_text("a: b\n- \"c\"\x7f") == "\"a: b\\x0a- \\\"c\\\"\\x7f\"");
  CHECK(yaml_text("a\xe2\x80\xa9") == "\"a\\P\"");
}

TEST_CASE("a formula is told from a number") {
  for (const char* cell : {"=1", "@x", "-1+1", "+cmd|x", "-", "\t=1"})
    CHECK(is_formula(cell));
  for (const char* cell : {"", "-1.5", "+2", "1e-3", "a=b", "-inf"})
    CHECK_FALSE(is_formula(cell));
}

}  // namespace
}  // namespace triplepoint
