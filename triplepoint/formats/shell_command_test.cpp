// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_command.h"

#include <doctest/doctest.h>

namespace triplepoint::formats {
namespace {

std::vector<std::string> words(std::string_view script) {
  const auto command = find_command(script, "x.sh");
  REQUIRE_MESSAGE(command.has_value(), (command ? "" : command.error().what));
  std::vector<std::string> texts;
  for (const ShellWord& word : command->words)
    texts.push_back(word.text);
  return texts;
}

using Words = std::vector<std::string>;

TEST_CASE("words end at blanks, quotes keep them together, a backslash continues the line") {
  CHECK(words("run --a 1 \\\n  --b 'two words' \\\r\n --c \"x y\"z") ==
        Words{"run", "--a", "1", "--b", "two words", "--c", "x yz"});
}

TEST_CASE("comments end with their line, also inside arrays") {
  CHECK(words("# no\nA=(--x 1 # not this\n --y) # nor this\nrun ${A[@]} # --z\n") ==
        Words{"run", "--x", "1", "--y"});
}

TEST_CASE("variables expand: bare ones fall into words, quoted ones stay whole") {
  CHECK(words("A='--x 1'\nrun $A \"$A\" ${A} '$A'") ==
        Words{"run", "--x", "1", "--x 1", "--x", "1", "$A"});
}

TEST_CASE("arrays keep their words, and += adds to them") {
  CHECK(words("A=(--x 'a b')\nA+=(--y)\nrun \"${A[@]}\" ${A[*]}") ==
        Words{"run", "--x", "a b", "--y", "--x", "a", "b", "--y"});
}

TEST_CASE(
    "defaults stand in for what is not set, arithmetic is done, the unknown stays as written") {
  CHECK(
      words("N=4\nrun --a ${M:-7} --b ${N:-7} --c $((N * (2 + 1))) --d $(date) --e ${Q} --f $1") ==
      Words{"run", "--a", "7", "--b", "4", "--c", "12", "--d", "$(date)", "--e", "${Q}", "--f",
            "$1"});
}

TEST_CASE("the program is found, also inside quotes and behind variables") {
  CHECK(words("echo --a\nX=1 Y=2 srun --n 4 bash -c \"python p.py --a 1 --b 2\"\nls") ==
        Words{"srun", "--n", "4", "bash", "-c", "python", "p.py", "--a", "1", "--b", "2"});
}

TEST_CASE("words know the line they stand in") {
  const auto command = find_command("\n\nrun --a \\\n  --b 1\n", "x.sh");
  REQUIRE(command.has_value());
  CHECK(command->words[1].line == 3);
  CHECK(command->words[2].line == 4);
}

TEST_CASE("a file of arguments needs no command and no backslashes") {
  CHECK(words("# sizes\n--a 1\n\n--b 2 # two\n--c\n") == Words{"--a", "1", "--b", "2", "--c"});
}

TEST_CASE("variables that hold themselves do not grow without end") {
  std::string script = "A=(--x)\n";
  for (int i = 0; i < 60; ++i)
    script += "A=(${A[@]} ${A[@]})\n";
  const auto command = find_command(script + "run --a ${A[@]}", "x.sh");
  REQUIRE(command.has_value());
  CHECK(command->words.size() <= 50'002);
}

TEST_CASE("a text without arguments is refused") {
  const auto command = find_command("echo hello\n", "x.sh");
  REQUIRE_FALSE(command.has_value());
  CHECK(command.error().what ==
        "x.sh: has no command with arguments (words that start with --); give a launch script, its "
        "command line or a file of arguments");
}

}  // namespace
}  // namespace triplepoint::formats
