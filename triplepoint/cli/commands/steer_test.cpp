// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/run/growing_run.h"
#include "triplepoint/run/store.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/advise/steer_output.h"
#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/command_testing.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::contains;
using testing::Outcome;
using testing::plus;

const std::vector<std::string> small_job = {"steer",    "--model", "llama3-8b", "--cluster",
                                            "hgx-h200", "--nodes", "2",         "--tp",
                                            "8",        "--gbs",   "32"};

// ---- the hook

TEST_CASE("a hook gets the whole decision on its standard input") {
  const ScratchFolder folder;
  const std::string file = folder.path("got.json");
  advise::Hook hook("cat > " + file, 10 * unit::s, Seconds());
  const std::string json(200'000, 'x');  // more than a pipe holds
  CHECK(hook.call(json, Seconds()).worked);
  CHECK(read_file(file).value() == json);
}

TEST_CASE("a hook that fails is counted, and left alone after three failures in a row") {
  advise::Hook hook("exit 3", 10 * unit::s, Seconds());
  for (int i = 0; i < 3; ++i) {
    const advise::Hook::Outcome outcome = hook.call("{}", i * unit::s);
    CHECK(outcome.called);
    CHECK(!outcome.worked);
    CHECK(contains(outcome.says, "3"));
  }
  CHECK(!hook.call("{}", 4 * unit::s).called);
  CHECK(hook.failures() == 3);
}

TEST_CASE("a hook that hangs is ended with what it started") {
  advise::Hook hook("sleep 100 & sleep 100", 0.2 * unit::s, Seconds());
  const advise::Hook::Outcome outcome = hook.call("{}", Seconds());
  CHECK(!outcome.worked);
  CHECK(contains(outcome.says, "longer"));
}

TEST_CASE("a hook is not called in a storm") {
  advise::Hook hook("cat > /dev/null", 10 * unit::s, 60 * unit::s);
  CHECK(hook.call("{}", 0 * unit::s).called);
  CHECK(!hook.call("{}", 59 * unit::s).called);
  CHECK(hook.call("{}", 60 * unit::s).called);
  CHECK(hook.failures() == 0);
}

TEST_CASE("a hook that reads nothing is no failure of ours") {
  advise::Hook hook("true", 10 * unit::s, Seconds());
  CHECK(hook.call(std::string(500'000, 'x'), Seconds()).worked);
}

// ---- scenarios

TEST_CASE("a slow node is steered through, in table, JSON and page") {
  const ScratchFolder folder;
  const std::string page = folder.path("steer.html");
  const auto words = plus(small_job, {"--scenario", "slow-node", "--duration", "10min",
                                      "--restarts", "0", "-o", page, "--format", "json"});
  const Outcome outcome = call(words);
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == exit_ok);
  const Json json = *parse_json(outcome.out, "steer");
  const Json& scenario = json["scenarios"][0];
  CHECK(scenario["moves"].get<int>() >= 1);
  CHECK(scenario["energy_delay_ratio"].get<double>() < 1);
  CHECK(scenario["decisions"][0]["considered"].size() > 3);
  const std::string html = read_file(page).value();
  CHECK(contains(html, "slow-node"));
  CHECK(contains(html, "limit all clocks"));
}

TEST_CASE("wrong words are refused with a way out") {
  CHECK(contains(call(plus(small_job, {"--scenario", "slow-nod"})).err, "slow-node"));
  CHECK(contains(call(plus(small_job, {"--hook", "true"})).err, "--watch"));
  CHECK(contains(call(plus(small_job, {"--moves", "-1"})).err, "--moves"));
  CHECK(call({"steer", "--watch", "nowhere.run"}).code == exit_failed);
  const ScratchFolder scratch;
  const std::string job = scratch.path("job.toml");
  const char* text = "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n";
  REQUIRE(write_file_atomically(job, text));
  CHECK(contains(call({"steer", job, "-o", job}).err, "name another output"));
  CHECK(*read_file(job) == text);
}

// ---- a recording

/// A job whose second node is slowed down after three minutes, as a run that was recorded.
run::Run recorded() {
  auto job = spec::parse_job(spec::default_library(), R"(
name = "slowed"
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 8
global_batch_size = 32
sharding = "optimizer"
)",
                             "job.toml");
  REQUIRE(job.has_value());
  spec::Fault brake;
  brake.kind = spec::FaultKind::power;
  brake.node = 1;
  brake.share = 0.6;
  brake.begin = 180 * unit::s;
  job->environment.faults = {brake};
  run::Run run = sim::simulate(*job, {.duration = 420 * unit::s, .steps = {}, .timeline = false});
  run.manifest.job->environment.faults.clear();  // without its faults
  return run;
}

TEST_CASE("a recording gets advice, and a hook the decision, and nothing else is touched") {
  const ScratchFolder folder;
  const std::string file = folder.path("job.run");
  REQUIRE(run::save(recorded(), file));
  const Outcome advice = call({"steer", "--watch", file, "--restarts", "0"});
  CAPTURE(advice.err);
  REQUIRE(advice.code == exit_ok);
  CHECK(contains(advice.out, "held at"));
  CHECK(contains(advice.out, "advice; nothing was changed"));

  const std::string got = folder.path("got.json");
  const Outcome acted =
      call({"steer", "--watch", file, "--restarts", "0", "--hook", "cat >> " + got});
  REQUIRE(acted.code == exit_ok);
  const std::string json = read_file(got).value();
  const Json first = *parse_json(json.substr(0, json.find("\n}\n") + 3), "hook");
  CHECK(first["job"] == "slowed");
  CHECK(first["move"] == "clock_limit");
  CHECK(first["time_s"].get<double>() > 180);
}

TEST_CASE("a run that does not know its job needs one to be named") {
  const ScratchFolder folder;
  const std::string file = folder.path("job.run");
  run::Run run = recorded();
  run.manifest.job.reset();
  REQUIRE(run::save(run, file));
  CHECK(contains(call({"steer", "--watch", file}).err, "--job"));
}

}  // namespace
}  // namespace triplepoint::cli
