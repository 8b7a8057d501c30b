// SPDX-License-Identifier: Apache-2.0
// No command recommends what its own numbers do not favour.
#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_line.h"

namespace triplepoint::cli {
namespace {

using Words = std::vector<std::string>;

Json ask(Words words, int code = exit_ok) {
  words.insert(words.end(), {"--format", "json"});
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  CAPTURE(words);
  const int got = run_command_line(words, console);
  CAPTURE(err.str());
  REQUIRE(got == code);
  return Json::parse(out.str());
}

std::string verdict_of(const Json& json) {
  return json.at("verdict").get<std::string>();
}

constexpr const char* job_with_a_bubble =
    "model = \"gpt3-5b\"\n"
    "cluster = \"dgx-a100\"\n"
    "nodes = 2\n"
    "[plan]\n"
    "tensor_parallel_size = 2\n"
    "pipeline_parallel_size = 4\n"
    "global_batch_size = 32\n";

TEST_CASE("verdicts: plan changes a job only for less of what was asked for") {
  const ScratchFolder folder;
  const std::string job = folder.file("job.toml", job_with_a_bubble);
  for (const char* goal : {"throughput", "energy", "cost"})
    for (const char* scope : {"gpu", "site"}) {
      const Json answer =
          ask({"plan", job, "--objective", goal, "--scope", scope, "--top", "3", "--fix", "cp=1"});
      const std::string verdict = verdict_of(answer);
      CAPTURE(verdict);
      const double best = answer.at("plans")[0].at("objective"),
                   own = answer.at("own").at("objective");
      CHECK(answer.at("energy_scope") == scope);
      if (verdict.starts_with("Change")) CHECK(best < 0.99 * own);
      if (verdict.starts_with("Keep")) CHECK(own < 1.1 * best);
      for (const Json& plan : answer.at("plans"))
        CHECK(plan.at("objective").get<double>() >= best);
      for (const Json& change : answer.value("changes", Json::array()))
        CHECK(change.at("objective").get<double>() < own);
    }
}

TEST_CASE("verdicts: plan keeps no job that breaks a limit") {
  const ScratchFolder folder;
  const std::string job = folder.file("job.toml", job_with_a_bubble);
  const double peak =
      ask({"plan", job, "--top", "1", "--fix", "cp=1"})["own"]["temperature_peak_c"];
  const Json answer = ask({"plan", job, "--top", "1", "--fix", "cp=1", "--max-temperature",
                           fmt::format("{:.1f} C", peak - 1)});
  CHECK(verdict_of(answer).starts_with("Your job breaks a limit: the hottest die's "));
  CHECK(answer["plans"][0]["temperature_peak_c"].get<double>() < peak - 0.9);
}

TEST_CASE("verdicts: a cap for less energy at the site raises no bill") {
  const auto bill = [](Words more) {
    Words words = {"plan",    "--model", "gpt3-5b", "--cluster", "dgx-a100",
                   "--nodes", "2",       "--gbs",   "48",        "--tokens",
                   "100B",    "--top",   "1",       "--fix",     "cp=1"};
    words.insert(words.end(), more.begin(), more.end());
    return ask(std::move(words)).at("plans")[0].at("bill").at("energy_mwh").get<double>();
  };
  CHECK(bill({"--objective", "energy"}) <= bill({}));
  CHECK(bill({"--objective", "energy", "--scope", "node"}) <= bill({"--scope", "node"}));
}

TEST_CASE("verdicts: place launches only what is faster") {
  for (const char* layers : {"8,8,8,8", "7,11,7,7"}) {
    const Json answer =
        ask({"place", "--model", "llama3-8b", "--cluster", "dgx-h100", "--tp", "2", "--pp", "4",
             "--gbs", "32", "--sequence-parallel", "--layers-per-stage", layers});
    const std::string verdict = verdict_of(answer);
    CAPTURE(verdict);
    const auto& all = answer.at("placements");
    const auto best = std::ranges::find_if(all, [&](const Json& placement) {
      return placement.at("placement") == answer.at("recommended");
    });
    REQUIRE(best != all.end());
    const double gain =
        all[0].at("step_time_s").get<double>() / best->at("step_time_s").get<double>() - 1;
    CHECK(verdict.starts_with("Launch") == (answer.at("recommended") != "baseline"));
    CHECK(answer.at("energy_scope") == "site");
    if (verdict.starts_with("Launch") && !best->contains("speed_gain_on_drawn_machines"))
      CHECK(gain >= 0.005);
    if (verdict.starts_with("Launch") && best->contains("speed_gain_on_drawn_machines"))
      CHECK(best->at("speed_gain_on_drawn_machines").at("mean").get<double>() >= 0.005);
  }
}

TEST_CASE("verdicts: clocks are locked where that saves most in the scope, and written only then") {
  const ScratchFolder folder;
  const std::string job = folder.file("job.toml", job_with_a_bubble);
  for (const char* scope : {"gpu", "site"})
    for (const char* slowdown : {"0%", "5%"}) {
      const std::string out = folder.path(std::string(scope) + slowdown);
      const Words words = {"plan", job, "--clocks",   "--scope", scope,
                           "-o",   out, "--slowdown", slowdown};
      std::ostringstream text, err;
      tui::Console console(text, err, {});
      const int code = run_command_line(words, console);
      const Json answer = ask({"plan", job, "--clocks", "--scope", scope, "--slowdown", slowdown});
      const std::string verdict = verdict_of(answer);
      CAPTURE(verdict);
      CHECK(answer.at("energy_scope") == scope);
      const double allowed = std::max(std::string(slowdown) == "5%" ? 0.05 : 0., 1e-3);
      double most = 5e-4;
      for (const Json& row : answer.at("frontier"))
        if (row.at("slowdown").get<double>() <= allowed)
          most = std::max(most, row.at("saving").get<double>());
      const bool locks = most > 5e-4;
      CHECK(verdict.starts_with("Lock") == locks);
      CHECK(verdict.starts_with("Leave") == !locks);
      CHECK(answer.contains("chosen") == locks);
      CHECK((code == exit_ok) == locks);
      CHECK(path_exists(Path(out) / "job.toml") == locks);
      if (locks) CHECK(answer.at("chosen").at("saving") == most);
    }
}

TEST_CASE(
    "verdicts: steer says steer only where energy times delay falls by what a move must gain") {
  for (const char* fault : {"node=1,power=0.6@100s", "power=0.7@100s..200s", "inlet=+5@100s"}) {
    const Json answer =
        ask({"steer", "--model", "llama3-8b", "--cluster", "hgx-h200", "--nodes", "2", "--tp", "8",
             "--gbs", "32", "--restarts", "0", "--duration", "6min", "--fault", fault});
    const std::string verdict = verdict_of(answer), better = answer.at("better");
    CAPTURE(verdict);
    const Json& steered = answer.at("sides")[1];
    const double change = steered.at("energy_delay_change");
    CHECK(verdict.starts_with("Steer") == (better == "dynamic"));
    CHECK((better == "dynamic") == (steered.at("moves") > 0 && change <= -0.005));
    CHECK(answer.at("energy_scope") == "site");
    CHECK(steered.at("joules_per_step") > 1.1 * steered.at("gpu_joules_per_step").get<double>());
  }
}

TEST_CASE("verdicts: a sweep names the fastest and the thriftiest of its table") {
  const Json answer = ask({"simulate", "--model", "gpt3-5b", "--cluster", "dgx-a100", "--tp", "2",
                           "--gbs", "32", "--sweep", "power-limit=250 W..400 W/50 W"});
  const auto& rows = answer.at("sweep");
  REQUIRE(rows.size() == 4);
  const auto least = [&](const char* key) {
    return *std::ranges::min_element(rows, {},
                                     [&](const Json& row) { return row.at(key).get<double>(); });
  };
  const std::string verdict = verdict_of(answer);
  CAPTURE(verdict);
  const auto named = [](const Json& row) {
    return "power-limit " + row.at("power-limit").get<std::string>();
  };
  CHECK(verdict.starts_with("Fastest: " + named(least("step_time_s"))));
  if (verdict.find("least energy") != std::string::npos)
    CHECK(verdict.find(named(least("joules_per_token")), verdict.find("least energy")) !=
          std::string::npos);
}

TEST_CASE("verdicts: a sweep of batches compares equal work, one of conditions names no best") {
  const std::vector<std::string> job = {"simulate", "--model", "llama3-8b", "--cluster",
                                        "dgx-h100", "--tp",    "2"};
  const auto verdict = [&](std::vector<std::string> more) {
    std::vector<std::string> words = job;
    words.insert(words.end(), more.begin(), more.end());
    return verdict_of(ask(words));
  };
  const std::string batches = verdict({"--sweep", "gbs=8|64"});
  CHECK(batches.starts_with("Fastest: gbs 64, "));
  CHECK(batches.find("longer for as many tokens") != std::string::npos);
  const std::string rooms = verdict({"--gbs", "32", "--sweep", "ambient=20 C|50 C"});
  CHECK(rooms.starts_with("With ambient 20 C: "));
  CHECK(rooms.find(" more with ambient 50 C") != std::string::npos);
}

TEST_CASE("verdicts: a sweep counts only jobs that ran") {
  const Json answer = ask({"simulate", "--model", "llama3-8b", "--cluster", "dgx-h100", "--tp", "8",
                           "--gbs", "8", "--sweep", "tp=7|8"});
  CHECK(verdict_of(answer).starts_with("Only tp 8 runs, with "));
  CHECK(verdict_of(answer).ends_with(" s a step. Of 2 jobs 1 ran."));
  CHECK(answer.at("sweep")[0].at("energy_scope").is_null());
}

TEST_CASE("verdicts: a size is taken only if it keeps the limits, and no cheaper one does") {
  const Words words = {"plan",  "--model", "gpt3-5b",  "--cluster", "dgx-a100", "--nodes", "1..4",
                       "--gbs", "64",      "--tokens", "10B",       "--fix",    "cp=1"};
  for (const char* within : {"10d", "4d", "1h"}) {
    Words limited = words;
    limited.insert(limited.end(), {"--within", within});
    const Json answer = ask(limited);
    const std::string verdict = verdict_of(answer);
    CAPTURE(verdict);
    const Json* cheapest = nullptr;
    for (const Json& row : answer.at("sizes"))
      if (row.at("problem") == "" &&
          (!cheapest || row.at("money").get<double>() < cheapest->at("money").get<double>()))
        cheapest = &row;
    REQUIRE(verdict.starts_with("Take") == (cheapest != nullptr));
    if (cheapest)
      CHECK(verdict.starts_with(
          fmt::format("Take {} x dgx-a100", cheapest->at("nodes").get<int64_t>())));
  }
}

}  // namespace
}  // namespace triplepoint::cli
