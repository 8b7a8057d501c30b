// SPDX-License-Identifier: Apache-2.0
// `plan` as it is called: pages, folders, clocks; and what `simulate` says of wear and
// swing.
#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_testing.h"

namespace triplepoint::cli {
namespace {

using testing::call, testing::Outcome;

std::vector<std::string> search_words(std::vector<std::string> more) {
  std::vector<std::string> words = {
      "plan",  "--model", "gpt3-5b", "--cluster", "dgx-a100", "--nodes",           "2",
      "--gbs", "48",      "--top",   "3",         "--pareto", "--max-temperature", "90 C"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Four stages, the second with more layers than the others.
constexpr const char* uneven_job =
    "model = \"llama3-8b\"\n"
    "cluster = \"dgx-h100\"\n"
    "nodes = 1\n"
    "stack = \"megatron-core\"\n"
    "[plan]\n"
    "tensor_parallel_size = 2\n"
    "pipeline_parallel_size = 4\n"
    "sequence_parallel = true\n"
    "micro_batch_size = 1\n"
    "global_batch_size = 32\n"
    "layers_per_stage = [7, 11, 7, 7]\n";

TEST_CASE("plan: -o NAME.html writes the page and nothing else") {
  const ScratchFolder folder;
  const std::string page = folder.path("plans.html");
  REQUIRE(call(search_words({"-o", page})).code == exit_ok);
  const auto text = read_file(page);
  REQUIRE(text);
  CHECK(contains(*text, "Best plans"));
}

TEST_CASE("plan: what two explained plans differ in adds up to their steps") {
  const Outcome found = call(search_words({"--explain", "1,2", "--format", "json"}));
  const Json rows = Json::parse(found.out).at("explain").at("rows");
  for (const char* plan : {"a_s", "b_s", "difference_s"}) {
    double sum = 0;
    for (const Json& row : rows)
      if (row.at("term") != "step") sum += row.at(plan).get<double>();
    CHECK(sum == doctest::Approx(rows.back().at(plan).get<double>()));
  }
  const Outcome alone = call(search_words({"--explain", "1"}));
  CHECK(alone.code == exit_failed);
  CHECK(contains(alone.err, "compares two plans"));
}

TEST_CASE("plan: JSON holds as many plans as the table, and the front where it is asked for") {
  const std::vector<std::string> two = {"plan",     "--model", "gpt3-5b", "--cluster",
                                        "dgx-a100", "--nodes", "2",       "--gbs",
                                        "48",       "--top",   "2"};
  const auto plans = [&](std::vector<std::string> more) {
    std::vector<std::string> words = two;
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(call(words).out).at("plans");
  };
  CHECK(plans({"--format", "json"}).size() == 2);
  const Json front = plans({"--format", "json", "--pareto"});
  REQUIRE(front.size() > 2);
  for (size_t i = 2; i < front.size(); ++i)
    CHECK(front[i].at("on_front") == true);
}

TEST_CASE("plan: the energy of a small step has digits") {
  const std::vector<std::string> words = {
      "plan",  "--model", "gpt3-1.3b", "--cluster", "hgx-h200", "--nodes", "1",
      "--gbs", "4",       "--top",     "1",         "--scope",  "gpu"};
  std::vector<std::string> as_json = words;
  as_json.insert(as_json.end(), {"--format", "json"});
  const double joules = Json::parse(call(as_json).out).at("plans")[0].at("energy_j").get<double>();
  REQUIRE(joules > 100);
  REQUIRE(joules < 1000);
  CHECK(contains(call(words).out, fmt::format("  {:.2f}  ", joules / 1e3).c_str()));
}

TEST_CASE("plan: -o says that a folder holds plans of an earlier search") {
  const ScratchFolder folder;
  const auto write = [&](const char* top) {
    return call({"plan", "--model", "gpt3-5b", "--cluster", "dgx-a100", "--nodes", "2", "--gbs",
                 "48", "--top", top, "-o", folder.path("plans")});
  };
  CHECK_FALSE(contains(write("3").err, "earlier search"));
  CHECK(contains(write("2").err, "plans/3-job.toml on are of an earlier search"));
}

TEST_CASE("plan --clocks: less energy at the same speed, and files that say how") {
  const ScratchFolder folder;
  const std::string clocks = folder.path("clocks");
  const std::string job = folder.file("job.toml", uneven_job);
  const Outcome answer = call({"plan", "--clocks", job, "--format", "json", "-o", clocks});
  REQUIRE(answer.code == exit_ok);
  const Json json = Json::parse(answer.out);
  REQUIRE(json["frontier"].size() > 2);
  CHECK(json["frontier"][0]["saving"] == 0.0);
  CHECK(json["chosen"]["saving"].get<double>() > 0);
  CHECK(json["chosen"]["slowdown"].get<double>() <= 0.001);
  CHECK(json["stages"].size() == 4);
  for (const char* name : {"clocks.csv", "clocks.sh", "job.toml"})
    CHECK(read_file(Path(clocks) / name).has_value());
  double energy = 0;
  constexpr int machines = 16;
  for (int seed = 1; seed <= machines; ++seed) {
    const Outcome again = call(
        {"simulate", clocks + "/job.toml", "--seed", std::to_string(seed), "--format", "json"});
    REQUIRE(again.code == exit_ok);
    energy += Json::parse(again.out)["energy_j"].get<double>() / machines;
  }
  CHECK(energy == doctest::Approx(json["frontier"][1]["energy_j"].get<double>()).epsilon(1e-6));
}

TEST_CASE("plan --clocks: a slowdown without clocks, or that is no share, is refused") {
  CHECK(call(search_words({"--slowdown", "2%"})).code == exit_failed);
  CHECK(call(search_words({"--clocks", "--slowdown", "much"})).code == exit_usage);
}

TEST_CASE("plan: choices of several --fix hold together, and none is lost") {
  const ScratchFolder folder;
  const std::string job = folder.file("job.toml", uneven_job);
  const Outcome both =
      call({"plan", job, "--fix", "tp=2,cp=1", "--fix", "mbs=1", "--format", "json"});
  REQUIRE(both.code == exit_ok);
  const Json found = Json::parse(both.out);
  REQUIRE(!found.at("plans").empty());
  for (const Json& plan : found.at("plans"))
    CHECK((plan.at("tp") == 2 && plan.at("cp") == 1 && plan.at("mbs") == 1));
  const Outcome twice = call({"plan", job, "--fix", "tp=2", "--fix", "tp=4"});
  CHECK(twice.code == exit_failed);
  CHECK(contains(twice.err, "--fix tp: given twice"));
}

TEST_CASE("simulate: the swing of node, rack and site") {
  const ScratchFolder folder;
  const std::string job = folder.file("job.toml", uneven_job);
  const Outcome answer =
      call({"simulate", job, "--power-profile", "--nodes-per-rack", "1", "--format", "json"});
  REQUIRE(answer.code == exit_ok);
  const Json json = Json::parse(answer.out);
  REQUIRE(json["power_profile"]["levels"].size() == 3);
  CHECK(json["power_profile"]["levels"][2]["swing_w"].get<double>() > 0);
  CHECK(call({"simulate", job, "--nodes-per-rack", "2"}).code == exit_failed);
  const Outcome table = call({"simulate", job, "--power-profile"});
  CHECK(contains(table.out, "Smoothing:"));
}

TEST_CASE("what ranks that share cores have no power for is refused by name") {
  const std::vector<std::string> job = {"--cluster", "laptop", "--model", "tiny-gpt", "--gbs", "8"};
  for (std::vector<std::string> words :
       {std::vector<std::string>{"plan"}, {"plan", "--clocks"}, {"steer"}}) {
    words.insert(words.end(), job.begin(), job.end());
    CHECK(contains(call(words).err, "needs a machine with power and heat"));
  }
}

}  // namespace
}  // namespace triplepoint::cli
