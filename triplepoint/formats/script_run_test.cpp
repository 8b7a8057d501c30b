// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/script_run.h"

#include <chrono>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

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

/// What is to be told of the first launch.
std::string remarks_of(const std::string& text) {
  const ScratchFolder folder;
  const auto read = run_script(folder.file("run.sh", text), {});
  if (!read) return read.error().what;
  return joined(read->front().command.remarks, "; ");
}

TEST_CASE("files, folders and programs that are not here are empty, and told") {
  const std::string begin = "set -e\nsource env.sh\ncd /none\nload_tools --now\n";
  const std::string end = "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 8\n";
  const std::string told = remarks_of(begin + end);
  if (told.starts_with("--run-script")) return;
  CHECK(told ==
        "the script ran without what is not here: /none (line 3), env.sh (line 2), "
        "load_tools (line 4)");
  CHECK(remarks_of(end).empty());
}

TEST_CASE("a script may change its folder, a copy of it") {
  const ScratchFolder folder;
  folder.file("sizes.sh", "LAYERS=7\n");
  const std::string script =
      folder.file("run.sh",
                  "set -e\nmkdir -p logs\necho LAYERS=9 > sizes.sh\nsource ./sizes.sh\ntorchrun "
                  "pretrain_gpt.py --num-layers $LAYERS 2>&1 | tee logs/out\n");
  const auto read = run_script(script, {});
  CHECK(read_file(folder.path("sizes.sh")).value() == "LAYERS=7\n");
  CHECK_FALSE(path_exists(folder.path("logs")));
  if (read) CHECK(read->front().command.words.back().text == "9");
}

TEST_CASE("GPUs are counted as those of a usual node, and that is told") {
  for (const char* count :
       {"$(nvidia-smi -L | wc -l)", "$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)",
        "$(python3 -c 'import torch; print(torch.cuda.device_count())')"}) {
    const std::string text = fmt::format("torchrun --nproc_per_node {} pretrain_gpt.py\n", count);
    const auto words = launched(text);
    if (!words) return;
    CHECK(words->at(2) == "8");
    CHECK(contains(remarks_of(text), "counts 8 GPUs (--env"));
    CHECK(launched(text, {.variables = {{"SLURM_GPUS_ON_NODE", "4"}}})->at(2) == "4");
  }
}

TEST_CASE("a batch script that is written on the way runs with its own options") {
  const auto words = launched(
      "sbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\nsrun python pretrain_gpt.py --n "
      "\\$SLURM_NNODES\nEOF\n");
  if (words)
    CHECK(*words == Words{"sbatch", "--nodes=4", "srun", "python", "pretrain_gpt.py", "--n", "4"});
}

TEST_CASE("a script that starts nothing in its folder is started at the root of its repository") {
  const ScratchFolder folder;
  folder.file(".git", "");
  folder.file("pretrain_gpt.py", "");
  const std::string script = folder.file(
      "examples/run.sh", "[ -f pretrain_gpt.py ] || exit 1\ntorchrun pretrain_gpt.py --a\n");
  const auto read = run_script(script, {});
  if (!read && read.error().what.starts_with("--run-script")) return;
  REQUIRE(read);
  CHECK(read->front().command.words.back().text == "--a");
}

TEST_CASE("what launches nothing says how it ended") {
  if (const auto words = launched("echo needs a model >&2\nexit 3\n"))
    CHECK(contains(words->front(), "ended with 3 and launched no training: needs a model"));
}

}  // namespace
}  // namespace triplepoint::formats
