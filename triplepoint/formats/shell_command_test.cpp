// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_command.h"

#include <map>

#include <doctest/doctest.h>

#include "triplepoint/base/lists.h"
#include "triplepoint/base/must_testing.h"

namespace triplepoint::formats {
namespace {

std::vector<std::string> words(std::string_view script) {
  const auto command = must(find_command(script, "x.sh"));
  return mapped(command.words, &ShellWord::text);
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

TEST_CASE("defaults stand in for what is not set, sums and products are worked out") {
  CHECK(words("N=4\nrun --a ${M:-7} --b ${N:-7} --c $((N * (2 + 1) / 2)) --e ${P:=3} "
              "--f $P --g ${M-a b}") ==
        Words{"run", "--a", "7", "--b", "4", "--c", "6", "--e", "3", "--f", "3", "--g", "a", "b"});
  CHECK(words("L=1000000000000000000\nrun --c $((L / 10))") ==
        Words{"run", "--c", "100000000000000000"});
}

TEST_CASE("a command has the variables in front of it and the exported ones") {
  const auto command = must(
      find_command("export A=1\nB=2\nC=3 D=$B nohup python p.py --d $D --c \"$C\" > log 2>&1 &\n",
                   "x.sh", {.variables = {{"D", "4"}}}));
  CHECK(command.variables ==
        std::map<std::string, std::string>{{"A", "1"}, {"C", "3"}, {"D", "2"}});
  CHECK(command.words[3].text == "4");
  CHECK(command.words[5].doubt == "C has no value in this file");
}

TEST_CASE("words know the line they stand in") {
  const auto command = must(find_command("\n\nrun --a \\\n  --b 1\n", "x.sh"));
  CHECK(command.words[1].line == 3);
  CHECK(command.words[2].line == 4);
}

TEST_CASE("a file of arguments needs no command and no backslashes") {
  CHECK(words("# sizes\n--a 1\n\n--b 2 # two\n--c\n") == Words{"--a", "1", "--b", "2", "--c"});
}

TEST_CASE("a variable that grows without end is refused") {
  std::string script = "A=(--x)\n";
  for (int i = 0; i < 60; ++i)
    script += "A=(${A[@]} ${A[@]})\n";
  const auto command = find_command(script + "run --a ${A[@]}", "x.sh");
  REQUIRE_FALSE(command.has_value());
  CHECK(command.error().what.find("a value grows without end") != std::string::npos);
}

TEST_CASE("a text without arguments is refused") {
  const auto command = find_command("echo hello\n", "x.sh");
  REQUIRE_FALSE(command.has_value());
  CHECK(command.error().what ==
        "x.sh: has no command with arguments (words that start with --); give a launch script, its "
        "command line or a file of arguments");
  const auto handed = find_command("A=(--x 1)\nsbatch --wait <<EOF\nrun ${A[@]}\nEOF\n", "x.sh");
  REQUIRE_FALSE(handed.has_value());
  CHECK(handed.error().what.find("the text that sbatch gets is another script") !=
        std::string::npos);
  const auto moved = find_command("mv $A b\nln -s $A c\nsource x.sh\n./go.sh --x 1\n", "x.sh");
  REQUIRE_FALSE(moved.has_value());
  CHECK(moved.error().what.find("'source x.sh' runs what does not stand here") !=
        std::string::npos);
}

/// The words that are not certain, each with its reason.
std::map<std::string, std::string> doubts(const std::string& script,
                                          const ScriptWorld& world = {}) {
  const auto command = must(find_command(script, "x.sh", world));
  std::map<std::string, std::string> all;
  for (const ShellWord& word : command.words)
    if (!word.doubt.empty()) all[word.text] = word.doubt;
  return all;
}

TEST_CASE("what is not certain stays one word with its reason, wherever it goes") {
  CHECK(doubts("A=(--x $(date +%s) --tp 4)\nALL=\"${A[*]} --y ${Q}0\"\nrun $ALL \"$1\" {1..3}") ==
        std::map<std::string, std::string>{{"$(date_+%s)", "it is the output of a command"},
                                           {"${Q}0", "Q has no value in this file"},
                                           {"$1", "$1 is an argument of the script"},
                                           {"{1..3}", "braces are not expanded"}});
}

TEST_CASE("what may or may not run puts in doubt what it sets, and no more") {
  for (const char* may : {"if [ -e x ]; then TP=8; fi", "[ -e x ] && TP=8", "[[ -e x ]] || TP=8",
                          "case $(x) in a|b) TP=8 ;; esac", "for TP in $(x); do :; done",
                          "((TP++))", "read TP", "f() { TP=8; }; f", "function f { TP=8; }\nf",
                          "unset TP", "printf -v TP 8", "source env.sh", "eval $(x)", "TP[1]=8",
                          "( TP=8 )", "export \"$N=8\"", "while true; do TP=8; done"}) {
    CAPTURE(may);
    CHECK(doubts(std::string("TP=1\n") + may + "\nrun --num-layers 2 --seq-length 8 --tp $TP")
              .size() == 1);
  }
  for (const char* not_run :
       {"f() { TP=8; }", "cat > x.sh <<EOF\nTP=8\nEOF", "TP=8 true", "# TP=8", "echo TP=8",
        "if [ -e x ]; then DATA=1; mkdir -p y; fi", "usage() { echo a; exit 1; }",
        "if [ $# -lt 1 ]; then exit 1; fi", "source venv/bin/activate", "cd x || exit"}) {
    CAPTURE(not_run);
    CHECK(doubts(std::string("TP=1\n") + not_run + "\nrun --tp $TP").empty());
  }
}

TEST_CASE("tests of known words choose, the arms of a case are all read, and so are texts") {
  const std::string set = "M=7B; N=2; ";
  for (const auto& [text, last] : std::map<std::string, std::string>{
           {"if [ $M = 7B ]; then A=1; elif [ $M = 70B ]; then A=2; else A=3; fi", "1"},
           {"if [ -z $M ]; then A=1; elif [[ $N -gt 1 && -n $M ]]; then A=2; else A=3; fi", "$A"},
           {"if ! [ $N -le 1 ] && [[ $M != *B ]]; then A=1; else A=1; fi", "$A"},
           {"if [ -e x ]; then A=4; exit 1; else A=2; fi", "$A"},
           {"A=1; if [ -n \"$X\" ]; then A=2; run --a 5; exit; fi", "1"},
           {"case $M in 70B|8B) A=1 ;; (7B) A=2 ;; *) A=3 ;; esac", "$A"},
           {"A=4; case $X in a) B=1 ;; *) B=3; esac", "4"},
           {"A=5; for i in 1 $(seq 3); do B=$i; done", "5"},
           {"while [ $# -gt 0 ]; do A=$1; shift; done; A=${A:-6}", "6"},
           {"CMD='A=$N; eval A=1$A'; eval $CMD", "12"}}) {
    const std::string script = set + text + "\nrun --a $A";
    CAPTURE(script);
    const auto command = must(find_command(script, "x.sh"));
    CHECK(command.words.back().text == last);
    CHECK(command.words.back().doubt.empty() == (last != "$A"));
  }
  CHECK(words("export N=2; M=1\nsrun -N 2 bash -c \"run --a '$M b' --n \\$N\"") ==
        Words{"srun", "-N", "2", "run", "--a", "1 b", "--n", "2"});
}

TEST_CASE("what branches set of which one runs is in doubt as a whole") {
  CHECK(doubts("if [ -e x ]; then A='--x 1'; else A='--x 2'; fi\nrun $A").size() == 1);
  CHECK(doubts("eval run --no-load \"\\$@\" --b $(x \"';|\")").size() == 2);
}

TEST_CASE("a default that is set where it may not run is in doubt, and a function's is no value") {
  CHECK(doubts("if [ -e x ]; then : ${TP:=8}; fi\nrun --tp $TP").size() == 1);
  CHECK(doubts("f() { TP=8; }\nrun --tp ${TP:-2}").empty());
  CHECK(doubts("TP=8 | cat\nrun --tp $TP").size() == 1);
}

TEST_CASE("where a value goes on under a condition, only what is added is in doubt") {
  CHECK(doubts("A=(--x 1)\nif [ $M ]; then A+=(--y 2); fi\nB='--z 3'\nif [ $M ]; then B=\"$B "
               "--q\"; fi\nrun ${A[@]} $B") ==
        std::map<std::string, std::string>{{"--y", "A is set in the 'if' of line 2"},
                                           {"2", "A is set in the 'if' of line 2"},
                                           {"--q", "B is set in the 'if' of line 4"}});
}

TEST_CASE("arguments fill positional parameters and shift, and without them a default holds") {
  const std::string script = "shift 2\nrun --b $1 --n $# --all \"$@\" --last ${2:-7}\n";
  const auto with = must(find_command(script, "x.sh", {.arguments = {"a", "-", "b c"}}));
  Words texts;
  for (const ShellWord& word : with.words)
    texts.push_back(word.text);
  CHECK(texts == Words{"run", "--b", "b", "c", "--n", "1", "--all", "b c", "--last", "7"});
  CHECK(doubts(script).size() == 3);
}

TEST_CASE("names with a default are taken as unset, which is told, unless they are given") {
  const auto bare = must(find_command("run --cp ${CP:-1}\n", "x.sh"));
  CHECK(bare.words[2].text == "1");
  REQUIRE(bare.remarks.size() == 1);
  CHECK(bare.remarks[0].find("empty environment: CP;") != std::string::npos);
  const auto set = must(find_command("run --cp ${CP:-1}\n", "x.sh", {.variables = {{"CP", "4"}}}));
  CHECK(set.words[2].text == "4");
}

TEST_CASE("what launches and is not read is refused with its line and the way out") {
  for (const auto& refused : std::map<std::string, std::string>{
           {"\neval $RUN", "x.sh:2: 'eval $RUN' runs what does not stand here"},
           {"srun bash -c \"$RUN\"", "x.sh:1: bash -c runs a text"},
           {"source train.sh", "x.sh:1: 'source train.sh' runs what does not stand here"},
           {"sbatch train.sh", "x.sh:1: train.sh is another script"},
           {"f() { python p.py; }\nf", "x.sh:2: f is a function (not read"},
           {"ssh h 'python p.py --a'", "x.sh:1: a command stands inside of a word"},
           {"for i in *; do\nrun --a\ndone",
            "x.sh:2: the training is launched in the 'for' of line 1"},
           {"grep x y && run --a", "x.sh:1: the training is launched if line 1 says so"},
           {"set -- a b\nrun --a", "x.sh:1: set changes the arguments"},
           {"IFS=,\nrun --a", "x.sh:1: IFS changes how words are split"},
           {"if true; then run --a", "x.sh:1: no end of what line 1 begins"},
           {"fi; run --a", "x.sh:1: 'fi' closes nothing"},
           {"exit 0\nrun --a", "x.sh:1: the script ends here"}}) {
    CAPTURE(refused.first);
    const auto command = find_command(refused.first, "x.sh");
    REQUIRE_FALSE(command.has_value());
    CHECK_MESSAGE(command.error().what.starts_with(refused.second), command.error().what);
    CHECK(command.error().what.find("--run-script") != std::string::npos);
  }
}

}  // namespace
}  // namespace triplepoint::formats
