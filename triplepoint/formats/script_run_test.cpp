// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/script_run.h"

#include <chrono>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::formats {
namespace {

using Words = std::vector<std::string>;

/// What the script launches first; nothing, told visibly, where no sandbox can be made.
std::optional<Words> launched(const std::string& text, const ScriptWorld& world = {}) {
  const ScratchFolder folder;
  const auto read = run_script(folder.file("run.sh", text), world);
  if (!read && read.error().what.starts_with("--run-script")) {
    MESSAGE("skipped: ", read.error().what);
    return std::nullopt;
  }
  Words words;
  if (!read)
    words = {read.error().what};
  else
    for (const ShellWord& word : read->front().command.words)
      words.push_back(word.text);
  return words;
}

TEST_CASE("a script that runs launches what its conditions, arguments and variables say") {
  const auto words = launched(
      "if [ \"$2\" = big ]; then TP=8; else TP=1; fi\n"
      "for i in 1; do torchrun --nnodes $NNODES pretrain_gpt.py --tp $TP --layers $(($1 * 2)); "
      "done\n",
      {.variables = {{"NNODES", "4"}}, .arguments = {"16", "big"}});
  if (words)
    CHECK(*words ==
          Words{"torchrun", "--nnodes", "4", "pretrain_gpt.py", "--tp", "8", "--layers", "32"});
}

TEST_CASE("launchers keep their words before the program that they start") {
  const auto words =
      launched("srun -N $SLURM_NNODES bash -c \"python pretrain_gpt.py --a 'b c'\"\n",
               {.variables = {{"SLURM_NNODES", "4"}}});
  if (words) CHECK(*words == Words{"srun", "-N", "4", "python", "pretrain_gpt.py", "--a", "b c"});
  const auto wrapped = launched("srun none.sh uv run torchrun pretrain_gpt.py --a\n");
  if (wrapped)
    CHECK(*wrapped == Words{"srun", "none.sh", "uv", "run", "torchrun", "pretrain_gpt.py", "--a"});
}

TEST_CASE("a script changes nothing outside, has no network, and ends in time") {
  const ScratchFolder folder;
  const std::string kept = folder.file("kept", "here");
  const std::string script = folder.file(
      "run.sh",
      "rm -rf \"" + folder.path("") + "\" /usr/bin/env 2>/dev/null; echo x > " + kept +
          " 2>/dev/null\nif (exec 3<>/dev/tcp/1.1.1.1/53) 2>/dev/null; then NET=yes; else NET=no; "
          "fi\n"
          "torchrun train.py --net $NET\nwhile :; do sleep 0.1 & read -t 0.01 < /dev/zero; done\n");
  const auto begin = std::chrono::steady_clock::now();
  const auto read = run_script(script, {}, 3 * unit::s);
  if (!read && read.error().what.starts_with("--run-script")) {
    MESSAGE("skipped: ", read.error().what);
    return;
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(120));
  CHECK(read_file(kept).value() == "here");
  REQUIRE(read);
  CHECK(read->front().command.words.back().text == "no");
}

TEST_CASE("what launches nothing says how it ended") {
  if (const auto words = launched("echo needs a model >&2\nexit 3\n"))
    CHECK(words->front().find("ended with 3 and launched nothing: needs a model") !=
          std::string::npos);
}

}  // namespace
}  // namespace triplepoint::formats
