// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_testing.h"
#include "triplepoint/store/store.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::plus;

const std::vector<std::string> small_job = {"steer",    "--model", "llama3-8b", "--cluster",
                                            "hgx-h200", "--nodes", "2",         "--tp",
                                            "8",        "--gbs",   "32"};

TEST_CASE("a slow node is steered through, in table, JSON and CSV") {
  const auto words = plus(
      small_job, {"--fault", "node=1,power=0.6@100s", "--duration", "10min", "--restarts", "0"});
  const Json json = testing::json_of(call(plus(words, {"--format", "json"})));
  CHECK(json["better"] == "dynamic");
  CHECK(json["faults"][0] == "node=1,power=0.6@100s");
  const Json &still = json["sides"][0], &steered = json["sides"][1];
  CHECK(steered["moves"].get<int>() >= 1);
  CHECK(steered["energy_delay_js"].get<double>() < still["energy_delay_js"].get<double>());
  CHECK(contains(json["decisions"][0]["setting"].get<std::string>(), "clocks up to"));
  CHECK(json["looks"].size() > 20);
  CHECK(contains(call(words).out, "limit all clocks"));
  CHECK(contains(call(plus(words, {"--format", "csv"})).out, "\ndynamic,"));
}

TEST_CASE("wrong words are refused with a way out") {
  CHECK(contains(call(small_job).err, "add one, as in --fault"));
  CHECK(contains(call(plus(small_job, {"--fault", "node=1,fun=2"})).err, "--fault node=1,fun=2"));
  CHECK(contains(call(plus(small_job, {"--restarts", "-1"})).err, "--restarts"));
  CHECK(contains(call({"steer", "--watch", "a.run", "--fault", "power=1"}).err, "leave them out"));
  CHECK(call({"steer", "--watch", "nowhere.run"}).code == exit_failed);
}

TEST_CASE("a recording raises an alarm that says what explains it, if its job is known") {
  const ScratchFolder folder;
  const std::string file = folder.path("job.run");
  auto words =
      plus(small_job, {"--duration", "7min", "--fault", "node=1,power=0.6@180s", "-o", file});
  words[0] = "simulate";
  REQUIRE(call(words).code == exit_ok);
  run::Run run = run::load(file).value();
  run.manifest.job->environment.faults.clear();  // not told
  REQUIRE(run::save(run, file));
  // The fit may name warmer air as well; the brake has to be among what it names.
  CHECK(contains(call({"steer", "--watch", file}).out, "--fault node=1,power=0."));
  const std::string lines = call({"steer", "--watch", file, "--format", "json"}).out;
  const Json last = parse_json(lines.substr(lines.rfind("{\"")), "alarm").value();
  CHECK(last["time_s"].get<double>() > 180);
  CHECK(contains(json_text(last["faults"]), "node=1,power=0."));
  run.manifest.job.reset();
  REQUIRE(run::save(run, file));
  CHECK(contains(call({"steer", "--watch", file}).err, "--job"));
}

}  // namespace
}  // namespace triplepoint::cli
