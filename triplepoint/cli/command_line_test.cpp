// SPDX-License-Identifier: Apache-2.0

#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command_testing.h"
#include "triplepoint/system/process.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::json_of;
using testing::Outcome;
using testing::plus;

const std::vector<std::string> small_job = {
    "simulate", "--model", "llama3-8b", "--cluster", "hgx-h200", "--tp", "4", "--gbs", "16"};

// ---- wrong use: exit code 2 and a way out

TEST_CASE("without words, the help goes to standard error and the exit code says wrong use") {
  const Outcome outcome = call({});
  CHECK(outcome.code == exit_usage);
  CHECK(outcome.out.empty());
  CHECK(contains(outcome.err, "characterize"));
}

TEST_CASE("a misspelt command gets a suggestion") {
  const Outcome outcome = call({"simulat"});
  CHECK(outcome.code == exit_usage);
  CHECK(contains(outcome.err, "did you mean \"simulate\"?"));
}

TEST_CASE("a misspelt flag gets a suggestion") {
  const Outcome outcome = call({"simulate", "--modle", "gpt3-175b"});
  CHECK(outcome.code == exit_usage);
  CHECK(contains(outcome.err, "--modle"));
  CHECK(contains(outcome.err, "--model?"));
}

TEST_CASE(
    "a flag of another program is found by the words of its name, and a missing value is named") {
  CHECK(contains(call({"simulate", "--tensor-parallel", "4"}).err, "did you mean --tp?"));
  CHECK(contains(call({"simulate", "--tp"}).err, "--tp needs a value: --tp N"));
  CHECK(contains(call({"plan", "--etp", "4"}).err, "unknown flag --etp; did you mean --fix?"));
  CHECK(call({"version"}).out == call({"--version"}).out);
}

TEST_CASE("aliases mean the words of another command, whose help names them") {
  using Words = std::vector<std::string>;
  CHECK(call({"list", "models"}).out == call({"show", "models"}).out);
  CHECK(without_alias(Words{"merge", "a", "-o", "b"}) == Words{"trace", "merge", "a", "-o", "b"});
  CHECK(without_alias(Words{"top", "--gpm"}) == Words{"snapshot", "--every", "1s", "--gpm"});
  CHECK(without_alias(Words{"top", "--interval=2s"}) == Words{"snapshot", "--interval=2s"});
  CHECK(without_alias(Words{"trace", "overlap", "a"}) ==
        Words{"trace", "breakdown", "--show", "ranks,overlap", "a"});
  CHECK(without_alias(Words{"trace", "comm", "list"}) == Words{"trace", "comm", "list"});
  for (const Alias& alias : aliases()) {
    Words words = split(alias.typed, ' ');
    words.emplace_back("--help");
    CHECK(contains(call(words).out, fmt::format("triplepoint {} means ", alias.typed)));
  }
}

TEST_CASE("words behind -- belong to the command that is to be run, whatever they look like") {
  CHECK(contains(call({"record", "--"}).err, "COMMAND is missing"));
  CHECK(contains(call({"record"}).err, "COMMAND is missing"));
  const Outcome refused =
      call({"record", "--job", "no-such.toml", "--", "true", "--no-such-flag", "--"});
  CHECK(refused.code == exit_failed);
  CHECK(contains(refused.err, "no-such.toml"));
  CHECK(call({"schema", "job", "--", "x"}).code == exit_usage);
}

TEST_CASE("a flag of one value that is given twice, by whichever of its names, is refused") {
  for (const char* name : {"--gbs", "--global-batch-size"})
    CHECK(contains(call(plus(small_job, {name, "8"})).err, "was given twice"));
}

TEST_CASE("a value that is no number, no choice or no quantity is refused with the flag's name") {
  const std::vector<std::vector<std::string>> wrong = {
      {"--tp", "eight"},        {"--tp", "8x"},        {"--sharding", "some"},
      {"--power-limit", "600"}, {"--ambient", "30 K"}, {"--layers-per-stage", "21,,19"}};
  for (const std::vector<std::string>& words : wrong) {
    CAPTURE(words[0]);
    const Outcome outcome = call(plus(small_job, words));
    CHECK(outcome.code == exit_usage);
    CHECK(contains(outcome.err, words[0]));
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("an empty name of a file, a folder or an entry of the library is refused") {
  const std::vector<std::vector<std::string>> wrong = {
      {"characterize", "laptop", "-o", ""},
      {"import", "", "-o", "jobs"},
      {"simulate", "--model", "", "--cluster", "hgx-h200"},
      {"characterize", "suite/training-v1", "--runs", ""}};
  for (const std::vector<std::string>& words : wrong) {
    CAPTURE(words[0]);
    const Outcome outcome = call(words);
    CHECK(outcome.code == exit_usage);
    CHECK(contains(outcome.err, "the name is empty"));
  }
  // Of a command that is run, "" is an argument like another.
  CHECK(contains(call({"record", "--job", "none.toml", "--", "true", ""}).err, "none.toml"));
}

TEST_CASE("numbers that make no sense are wrong use, before anything is simulated") {
  const std::vector<std::vector<std::string>> wrong = {
      {"simulate", "--duration", "0s"},
      {"record", "--interval", "1ms"},
      {"doctor", "--look", "1h"},
      {"simulate", "--duration", "1e300s"},
      {"simulate", "--steps", "0"},
      {"simulate", "--steps", "9223372036854775807"},
      {"simulate", "--mtbf", "-1h"},
      {"simulate", "--checkpoint-interval", "0s"},
      {"simulate", "--restart-time", "-5s"},
      {"characterize", "--timeout", "0.5s", "laptop", "--measure"},
      {"characterize", "--timeout", "1e300s", "laptop", "--measure"},
      {"place", "--threads", "0"},
      {"plan", "--threads", "-1"},
      {"characterize", "--threads", "99999999999"},
      {"place", "--judge", "0"},
      {"plan", "--top", "0"},
      {"steer", "--restart-time", "-1s"},
      {"steer", "--spares", "1000000000000"}};
  for (const std::vector<std::string>& words : wrong) {
    CAPTURE(words[0] + " " + words[1] + " " + words[2]);
    const Outcome outcome = call(words);
    CHECK(outcome.code == exit_usage);
    CHECK(contains(outcome.err, words[1]));
    CHECK(contains(outcome.err, "out of range"));
  }
}

TEST_CASE("flags that would do nothing are refused") {
  CHECK(contains(call(plus(small_job, {"--price-kwh", "0.1"})).err, "add --tokens"));
  CHECK(contains(call({"place", "--hosts", "anna"}).err, "belongs to -o"));
  CHECK(contains(call({"place", "--row", "x"}).err, "belongs to a CSV table"));
}

TEST_CASE("flags of the layout fix it in a search, and are the job's where clocks are planned") {
  const std::vector<std::string> job = {"plan",     "--model", "llama3-8b", "--cluster",
                                        "hgx-h200", "--gbs",   "32"};
  CHECK(contains(call(plus(job, {"--sequence-parallel"})).err, "--fix"));
  CHECK(contains(call(plus(job, {"--tp", "2", "--fix", "tp=4"})).err, "tp"));
  const Outcome by_flag = call(plus(job, {"--tp", "2", "--mbs", "1", "--format", "csv"}));
  CAPTURE(by_flag.err);
  CHECK(by_flag.code == exit_ok);
  CHECK(by_flag.out == call(plus(job, {"--fix", "tp=2,mbs=1", "--format", "csv"})).out);
  const Outcome clocks =
      call(plus(job, {"--clocks", "--tp", "2", "--pp", "2", "--sequence-parallel"}));
  CAPTURE(clocks.err);
  CHECK(clocks.code == exit_ok);
}

TEST_CASE("a training that fails more often than it starts never ends, and says so") {
  const Outcome outcome = call(plus(small_job, {"--tokens", "15T", "--mtbf", "1ms"}));
  CHECK(outcome.code == exit_ok);
  CHECK(contains(outcome.out, "it would never end"));
}

TEST_CASE("a missing word, a word too many and a flag without its value are wrong use") {
  CHECK(call({"characterize"}).code == exit_usage);
  CHECK(contains(call({"show"}).err, "NAME is missing"));
  CHECK(contains(call({"schema"}).err, "KIND is missing; known are "));
  CHECK(call({"schema", "job", "study"}).code == exit_usage);
  CHECK(call({"simulate", "--model"}).code == exit_usage);
  CHECK(call({"train", "--ranks", "0"}).code == exit_usage);
}

TEST_CASE("export wants to know what to write") {
  CHECK(call({"export", "job.toml"}).code == exit_usage);
  CHECK(call({"export", "job.toml", "--toml", "--nemo-yaml"}).code == exit_usage);
}

// ---- help

TEST_CASE("every command explains itself, and every flag of it") {
  for (const CommandEntry& entry : commands()) {
    CAPTURE(entry.name);
    const Outcome outcome = call({std::string(entry.name), "--help"});
    CHECK(outcome.code == exit_ok);
    CHECK(call({"help", std::string(entry.name)}).out == outcome.out);
    const auto command = entry.make();
    for (const Argument& argument : command->arguments()) {
      CAPTURE(argument.names);
      CHECK(contains(outcome.out, argument.names.substr(0, argument.names.find(','))));
      CHECK(!argument.help.empty());
    }
  }
}

TEST_CASE("the program's help lists every command once") {
  const std::string help = call({"--help"}).out;
  for (const CommandEntry& entry : commands()) {
    const std::string line = "\n  " + std::string(entry.name) + " ";
    CAPTURE(line);
    const std::size_t first = help.find(line);
    REQUIRE(first != std::string::npos);
    CHECK(help.find(line, first + 1) == std::string::npos);
  }
}

TEST_CASE("help fits the terminal") {
  for (const CommandEntry& entry : commands()) {
    std::istringstream lines(call({std::string(entry.name), "--help"}, {.width = 80}).out);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      if (!line.starts_with("  triplepoint ")) CHECK(tui::display_width(line) <= 80);
    }
  }
}

TEST_CASE("help fits 100 columns, examples included") {
  for (const CommandEntry& entry : commands()) {
    std::istringstream lines(call({std::string(entry.name), "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(tui::display_width(line) <= 100);
    }
  }
}

TEST_CASE("the program says which it is") {
  CHECK(call({"--version"}).out.starts_with("triplepoint "));
}

TEST_CASE("completion scripts know every command and flag") {
  for (const char* shell : {"bash", "zsh"}) {
    const std::string script = call({"completion", shell}).out;
    for (const CommandEntry& entry : commands())
      CHECK(contains(script, entry.name));
    CHECK(contains(script, "tensor-model-parallel-size"));
    for (const char* kind : {"models", "gpus", "clusters", "stacks", "optimizers", "records"})
      CHECK(contains(script, std::string("triplepoint show ") + kind + " --names"));
  }
}

// ---- the world is wrong: exit code 1 and a sentence

TEST_CASE("unknown names get suggestions") {
  const Outcome model = call({"simulate", "--model", "gpt3-175", "--cluster", "hgx-h200"});
  CHECK(model.code == exit_failed);
  CHECK(contains(model.err, "gpt3-175b"));
  const Outcome cluster = call({"simulate", "--model", "gpt3-175b", "--cluster", "hgx-h2000"});
  CHECK(cluster.code == exit_failed);
  CHECK(contains(cluster.err, "hgx-h200"));
  CHECK(contains(call({"show", "hgx-h2000"}).err, "hgx-h200"));
  CHECK(call({"characterize", "paper/h20", "-o", "never"}).code == exit_failed);
}

TEST_CASE("a model without a cluster says what is missing") {
  const Outcome outcome = call({"simulate", "--model", "gpt3-175b"});
  CHECK(outcome.code == exit_failed);
  CHECK(contains(outcome.err, "--cluster"));
}

TEST_CASE("a job that cannot run is refused with every reason") {
  const Outcome outcome = call({"simulate", "--model", "llama3-70b", "--cluster", "hgx-h200",
                                "--nodes", "4", "--pp", "32", "--gbs", "128"});
  CHECK(outcome.code == exit_failed);
  CHECK(contains(outcome.err, "80"));
}

TEST_CASE("files that are missing, empty, folders or nonsense end in one sentence each") {
  const ScratchFolder scratch;
  const std::string empty = scratch.file("empty.yaml", "");
  const std::string nonsense = scratch.file("nonsense.toml", "]]]] = [");
  const std::string binary = scratch.file("binary.run", std::string("\x00\x01\x02", 3));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"simulate", scratch.path("absent.toml")},
                                             {"simulate", empty},
                                             {"simulate", nonsense},
                                             {"simulate", scratch.path("")},
                                             {"import", scratch.path("absent.yaml")},
                                             {"import", empty},
                                             {"report", scratch.path("absent.run")},
                                             {"report", binary},
                                             {"report", scratch.path("")},
                                             {"export", nonsense, "--toml"},
                                             {"simulate", binary}}) {
    CAPTURE(words.back());
    const Outcome outcome = call(words);
    CHECK(outcome.code == exit_failed);
    CHECK(outcome.err.starts_with("triplepoint: "));
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("a file that may not be read says so") {
  if (geteuid() == 0) {
    MESSAGE("skipped: root may read everything");
    return;
  }
  const ScratchFolder scratch;
  const std::string file = scratch.file("secret.toml", "[job]\n");
  std::filesystem::permissions(file, std::filesystem::perms::none);
  CHECK(call({"simulate", file}).code == exit_failed);
}

TEST_CASE("an output that cannot be written is an error, and nothing half written stays") {
  const ScratchFolder scratch;
  const std::string file = scratch.file("file", "x");
  const Outcome outcome = call(plus(small_job, {"-o", file + "/below.run"}));
  CHECK(outcome.code == exit_failed);
  CHECK(!outcome.err.empty());
  CHECK(call({"characterize", "paper/mi250", "-o", file}).code == exit_failed);
  CHECK(std::filesystem::file_size(file) == 1);
}

// ---- what it is for

TEST_CASE("a stored run becomes a page, and its job can be exported and simulated again") {
  const ScratchFolder scratch;
  const std::string run = scratch.path("small.run");
  CHECK(call(plus(small_job, {"-o", run})).code == exit_ok);
  CHECK(call({"trace", "merge", run, "-o", scratch.path("small.pftrace")}).code == exit_ok);
  CHECK(std::filesystem::file_size(scratch.path("small.pftrace")) > 1000);
  CHECK(call({"report", run}).code == exit_ok);
  CHECK(contains(*read_file(scratch.path("small.html")), "llama3-8b"));
  const Outcome exported = call({"export", run, "--toml"});
  CHECK(exported.code == exit_ok);
  const std::string job = scratch.file("again.toml", exported.out);
  CHECK(json_of(call({"simulate", job, "--format", "json"}))["step_time_s"] ==
        json_of(call({"simulate", run, "--format", "json"}))["step_time_s"]);
}

TEST_CASE("every JSON object has its schema, first") {
  const std::vector<std::string> json = {"--format", "json"};
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           small_job,
           {"plan", "--model", "tiny-gpt", "--cluster", "hgx-h200", "--gbs", "8"},
           {"place", "--model", "llama3-8b", "--cluster", "hgx-h200", "--tp", "4", "--pp", "2",
            "--gbs", "16"},
           {"show", "models"},
           {"show", "h200"},
           {"export", TPT_SOURCE_DIR "/examples/one-node.toml", "--toml"},
           {"import", TPT_SOURCE_DIR "/examples/pretrain_llama.sh"}}) {
    CAPTURE(words.front());
    const Json found = json_of(call(plus(words, json)));
    REQUIRE(found.is_object());
    CHECK(found.begin().key() == "schema");
  }
}

// ---- terminal

TEST_CASE("there is no escape code without a terminal, and some with one") {
  CHECK(!contains(call({"show", "models"}).out, "\033"));
  CHECK(contains(call({"show", "models"}, {.width = 100, .colour = true}).out, "\033"));
}

TEST_CASE("tables fit the terminal") {
  std::istringstream lines(call({"show", "clusters"}, {.width = 60}).out);
  for (std::string line; std::getline(lines, line);)
    CHECK(tui::display_width(line) <= 60);
}

}  // namespace
}  // namespace triplepoint::cli
