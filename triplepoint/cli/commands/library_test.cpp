// SPDX-License-Identifier: Apache-2.0
// What there is (show), and what comes from others (import).
#include <filesystem>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command_testing.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::json_of;
using testing::Outcome;

TEST_CASE("lists name what simulate takes") {
  CHECK(contains(call({"show", "models"}).out, "gpt3-175b"));
  CHECK(contains(call({"show", "clusters", "--names"}).out, "hgx-h200\n"));
  CHECK(contains(call({"show", "studies"}).out, "paper/h200"));
  const std::string gpus = call({"show", "gpus"}).out;
  CHECK(contains(gpus, "989 TFLOP/s bf16"));
  CHECK(contains(gpus, ", 0.0410 TFLOP/s bf16"));  // a quarter of a CPU core
  for (const char* kind : {"models", "gpus", "clusters", "stacks", "studies"})
    CHECK(json_of(call({"show", kind, "--format", "json"}))[kind].size() > 0);
}

TEST_CASE("a folder without launch files and a file that is no study are refused as such") {
  const ScratchFolder scratch;
  const Outcome import = call({"import", scratch.folder().string()});
  CHECK(import.code == exit_failed);
  CHECK(contains(import.err, "holds no launch file"));
  CHECK(contains(call({"characterize", scratch.file("empty.yaml", "")}).err, "is no study"));
  const Outcome job = call({"import", scratch.file("job.toml", "model = \"llama3-8b\"\n")});
  CHECK(job.code == exit_failed);
  CHECK(contains(job.err, "job.toml needs no import"));
}

TEST_CASE("a training's log is no job and no trace: import and trace say what shows it") {
  const ScratchFolder scratch;
  const std::string log = scratch.file(
      "nemo.log",
      "[NeMo I 2025-01-01 10:00:00 exp_manager:400] Experiments will be logged at /results\n"
      "Epoch 0: :   1%|  | 1/100 [00:10<16:30, reduced_train_loss=10.50, global_step=0.000, "
      "consumed_samples=128.0, train_step_timing in s=9.80]\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"import", log},
                                                {"show", log},
                                                {"trace", "breakdown", log},
                                                {"trace", "comm", log},
                                                {"trace", "stragglers", log},
                                                {"trace", "critical-path", log},
                                                {"trace", "diff", log, log}}) {
    const Outcome said = call(words);
    CHECK(said.code == exit_failed);
    CHECK(contains(said.err, "triplepoint report " + log));
    CHECK(contains(said.err, "triplepoint compare " + log + " OTHER"));
  }
  const Outcome page = call({"report", log, "-o", scratch.path("log.html")});
  CHECK(page.code == exit_ok);
  CHECK(call({"compare", log, log}).code == exit_ok);
}

TEST_CASE("a trace is no job: import and show name the command that reads it") {
  const ScratchFolder scratch;
  const std::string file = scratch.file("rank0.json", testing::KinetoFixture(0).text());
  for (const char* verb : {"import", "show"})
    CHECK(contains(call({verb, file}).err, "triplepoint trace breakdown " + file));
}

TEST_CASE("import takes every flag that its refusals name") {
  const ScratchFolder scratch;
  const std::string help = call({"import", "--help"}).out;
  const std::string deepspeed = scratch.file(
      "ds.json", R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}})");
  const std::vector<std::string> words = {"import", deepspeed, "--cluster", "hgx-h100"};
  const std::string refusal = call(words).err;
  REQUIRE(contains(refusal, "--model"));
  for (size_t at = refusal.find("--"); at != std::string::npos; at = refusal.find("--", at + 2)) {
    const std::string flag = refusal.substr(at, refusal.find_first_of(" ;,.\n", at) - at);
    CHECK_MESSAGE(contains(help, flag + " "), flag);
  }
  std::vector<std::string> with = words;
  with.insert(with.end(), {"--model", "llama3-8b", "-o", scratch.path("jobs")});
  const Outcome imported = call(with);
  REQUIRE(imported.code == exit_ok);
  CHECK(contains(imported.out, "by default 1 node, recompute none"));
  const Outcome job =
      call({"show", scratch.path("jobs") + deepspeed.substr(0, deepspeed.size() - 4) + "toml"});
  CHECK_MESSAGE(contains(job.out, "llama3-8b"), (job.out + job.err));
  CHECK(contains(call({"import", scratch.path(""), "--model", "llama3-8b"}).err, "name a file"));
}

TEST_CASE("import of a recording prints commands that read what it wrote") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("one job") + "/", output = scratch.path("my runs");
  REQUIRE(make_folder(folder));
  scratch.file("one job/gpu_power_0.csv", "1700000000.0,400\n1700000001.0,500\n");
  const auto command_in = [](const Outcome& outcome) {
    const size_t begin = outcome.out.find("triplepoint report ");
    REQUIRE(begin != std::string::npos);
    return outcome.out.substr(begin, outcome.out.find('\n', begin) - begin);
  };
  CHECK(command_in(call({"import", folder})) == "triplepoint report '" + folder + "'");
  const Outcome written = call({"import", folder, "-o", output});
  const std::string run = output + "/one job.run";
  CHECK(command_in(written) == "triplepoint report '" + run + "'");
  CHECK(call({"report", run}).code == exit_ok);
}

TEST_CASE("import exits 1 for an invalid file, and 0 for a folder with one") {
  const ScratchFolder scratch;
  const std::string file = scratch.file("odd.args",
                                        "--num-layers 7 --hidden-size 1024 --num-attention-heads "
                                        "16 --seq-length 1024 --pipeline-model-parallel-size 4 "
                                        "--micro-batch-size 1 --global-batch-size 8\n");
  const Outcome alone = call({"import", file});
  CHECK(alone.code == exit_failed);
  CHECK(contains(alone.out, "1 invalid"));
  CHECK(call({"import", scratch.path("")}).code == exit_ok);
}

TEST_CASE("show says where a number comes from") {
  const Json json = json_of(call({"show", "h200", "--format", "json"}));
  REQUIRE(!json.empty());
  std::set<std::string> parts;
  for (const Json& number : json["shown"][0]["numbers"]) {
    CHECK(!number["source"].get<std::string>().empty());
    const std::string key = number["key"];
    parts.insert(key.substr(0, key.find('.')));
  }
  for (const char* part : {"gpu", "kernels", "power", "thermal", "governor", "variability"})
    CHECK(parts.contains(part));
  const Json cluster = json_of(call({"show", "hgx-h200", "--format", "json"}));
  CHECK(cluster["shown"][0]["numbers"].size() > json["shown"][0]["numbers"].size());
}

TEST_CASE("show reads a file: a model in TOML, a job") {
  const ScratchFolder scratch;
  const Path data = Path(spec::default_library().root);
  const std::string own = scratch.path("own.toml"), job = scratch.path("job.toml");
  std::filesystem::copy_file(data / "models/llama3-8b.toml", own);
  CHECK(contains(call({"show", own}).out, "8.03 B parameters"));
  REQUIRE(write_file_atomically(job, "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n"));
  const std::string about = call({"show", job}).out;
  for (const char* part : {"llama3-8b on 8 x H200", "8.03 B parameters", "PFLOP", "memory: fits"})
    CHECK_MESSAGE(contains(about, part), part);
  CHECK(contains(call({"show", scratch.path("none.toml")}).err, "there is no such file"));
}

}  // namespace
}  // namespace triplepoint::cli
