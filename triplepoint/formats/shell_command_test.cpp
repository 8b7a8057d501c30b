// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_command.h"

#include <algorithm>

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

TEST_CASE("a doubt stays with the words it concerns, through arrays, quotes and eval") {
  const auto command = find_command(
      "if grep -q x y; then LR=1; fi\nA=(--lr $LR --tp 4)\nRUN=\"python p.py ${A[*]} --b 2\"\n"
      "eval \"$RUN --c ${LR}0\"\n",
      "x.sh");
  REQUIRE(command.has_value());
  Words doubtful;
  for (const ShellWord& word : command->words)
    if (!word.doubt.empty()) doubtful.push_back(word.text);
  CHECK(doubtful == Words{"1", "10"});
  CHECK(command->words.size() == 10);
}

TEST_CASE("arguments fill $1, $# and shift, and without them a condition on one is in doubt") {
  const std::string script =
      "if [ $# -lt 2 ]; then echo usage; exit 1; fi\nif [ $1 = a ]; then TP=8; else TP=1; fi\n"
      "shift\nrun --tp $TP --b $1 --n $# --all \"${@:2}\" --last ${10}\n";
  const auto with = find_command(
      script, "x.sh", {.arguments = {"a", "b", "c", "4", "5", "6", "7", "8", "9", "10", "11"}});
  REQUIRE(with.has_value());
  Words texts;
  for (const ShellWord& word : with->words)
    texts.push_back(word.text);
  CHECK(texts == Words{"run", "--tp", "8", "--b", "b", "--n", "10", "--all", "c", "4", "5", "6",
                       "7", "8", "9", "10", "11", "--last", "11"});
  const auto without = find_command(script, "x.sh");
  REQUIRE(without.has_value());
  CHECK(without->words[2].doubt ==
        "TP is set under the condition of line 2 (argument 1 of the script)");
  CHECK(without->words[4].doubt == "argument 2 of the script");
}

TEST_CASE("variables that nothing sets are unset, which is told, and given ones are set") {
  const std::string script =
      "if [ -z ${SIZE} ]; then SIZE=7; fi\nif [ \"$MODE\" = big ]; then TP=8; else TP=2; fi\n"
      "run --size $SIZE --tp $TP --cp ${CP:-1}\n";
  const auto bare = find_command(script, "x.sh");
  REQUIRE(bare.has_value());
  CHECK(bare->words[2].text + bare->words[4].text + bare->words[6].text == "721");
  REQUIRE(bare->remarks.size() == 1);
  CHECK(bare->remarks[0].find("empty environment: CP, MODE, SIZE;") != std::string::npos);
  const auto set = find_command(script, "x.sh", {.variables = {{"MODE", "big"}, {"CP", "4"}}});
  REQUIRE(set.has_value());
  CHECK(set->words[4].text + set->words[6].text == "84");
}

TEST_CASE("files that are sourced or started are read where they are, from the script's folder") {
  const ScriptWorld world{.variables = {},
                          .arguments = {},
                          .file = [](const std::string& path) -> std::optional<std::string> {
                            if (path == "/d/sub/m.sh") return "TP=${TP_OF:-4}\nL=$1\n";
                            if (path == "/d/sub/child.sh")
                              return "python p.py --tp ${TP:-1} --pp ${PP:-1} --l $1\nexit 3\n";
                            return std::nullopt;
                          }};
  const auto command = find_command(
      "HERE=$(cd -- \"$(dirname \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd)\n"
      "source $HERE/sub/m.sh 32\nexport PP=2\nsrun -N 2 bash sub/child.sh $L\n",
      "/d/x.sh", world);
  REQUIRE(command.has_value());
  Words texts;
  for (const ShellWord& word : command->words)
    texts.push_back(word.text);
  // TP is not exported, so the child does not see it.
  CHECK(texts ==
        Words{"srun", "-N", "2", "bash", "python", "p.py", "--tp", "1", "--pp", "2", "--l", "32"});
  CHECK(command->words[7].line == 4);
  CHECK(
      find_command("#!/bin/bash\nsbatch train.sh\n", "x.sh")
          .error()
          .what.find("launches no training itself (line 2 starts train.sh, which is not there)") !=
      std::string::npos);
}

TEST_CASE("whether a program is there, and what has to be set, is not known") {
  const auto command = find_command(
      "command -v nvidia-smi && TP=1\nPP=${PP:?set PP}\n"
      "torchrun pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size "
      "$PP\n",
      "x.sh");
  REQUIRE(command.has_value());
  for (const char* const option :
       {"--tensor-model-parallel-size", "--pipeline-model-parallel-size"}) {
    const auto at = std::ranges::find(command->words, option, &ShellWord::text);
    REQUIRE(at != command->words.end());
    CHECK_MESSAGE(!(at + 1)->doubt.empty(), option);
  }
}

TEST_CASE("loops over known words run, and arithmetic compares, chooses and counts") {
  CHECK(words("N=4\nfor i in 1 2 3; do X+=\"--x$i \"; ((N++)); done\n"
              "run $X --a $(( (N > 5) ? N ** 2 : 0 )) --b $((7 % 4 == 3 && !0))") ==
        Words{"run", "--x1", "--x2", "--x3", "--a", "49", "--b", "1"});
  CHECK(words("P=a/b.tar.gz\nM=7B\nrun --a ${P##*/} --b ${P%%.*} --c ${M,,} --d $(basename $P)") ==
        Words{"run", "--a", "b.tar.gz", "--b", "a/b", "--c", "7b", "--d", "b.tar.gz"});
  CHECK(words("A=1\nB=x\nif [[ $A -eq 1 && \"$B\" != y ]]; then C=3; fi\nrun --c $C") ==
        Words{"run", "--c", "3"});
}

}  // namespace
}  // namespace triplepoint::formats
