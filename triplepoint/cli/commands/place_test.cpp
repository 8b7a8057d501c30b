// SPDX-License-Identifier: Apache-2.0
// `place` as it is called: from a job, a run, a table; and the files that it writes.
#include <filesystem>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_testing.h"
#include "triplepoint/store/store.h"

namespace triplepoint::cli {
namespace {

using testing::call, testing::Outcome;

/// GPT3-20B on two HGX H200 nodes, stages 0 to 3 on two nodes of two stages each.
std::vector<std::string> job_and(const std::string& verb, const std::vector<std::string>& more) {
  std::vector<std::string> words = {verb,        "--model",  "gpt3-20b",
                                    "--cluster", "hgx-h200", "--nodes",
                                    "2",         "--tp",     "4",
                                    "--pp",      "4",        "--sequence-parallel",
                                    "--gbs",     "16",       "--rank-order",
                                    "tp-pp-dp"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json parsed(const Outcome& answer) {
  REQUIRE(answer.code == exit_ok);
  const auto json = parse_json(answer.out, "stdout");
  REQUIRE(json);
  return *json;
}

double step_of(const Json& json, const std::string& placement) {
  for (const Json& one : json["placements"])
    if (one["placement"] == placement) return one["step_time_s"].get<double>();
  FAIL("no placement " << placement);
  return 0;
}

}  // namespace

TEST_CASE("place: a job's placements, and one that gains on average and is not slower here") {
  const Json json = parsed(call(job_and("place", {"--judge", "30", "--format", "json"})));
  REQUIRE(json["thermal_groups"]["groups"].size() == 2);
  CHECK(json["placements"].size() >= 3);
  const std::string best = json["recommended"];
  CHECK(step_of(json, best) <= step_of(json, "baseline"));
  const std::string words = call(job_and("place", {"--judge", "30"})).out;
  const bool gains = best != "baseline";
  CHECK(contains(words, "To launch the " + best + " placement") == gains);
  CHECK(contains(words, "Leave the job as it is") == !gains);
  CHECK(contains(words, "\nLaunch the " + best + " placement") == gains);
  CHECK(call(job_and("place", {"--judge", "30", "--format", "json", "--threads", "3"})).out ==
        call(job_and("place", {"--judge", "30", "--format", "json", "--threads", "1"})).out);
}

TEST_CASE("place: what it writes is the job it judged, and a launcher finds its devices") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("placed");
  const Outcome answer = call(job_and(
      "place", {"--judge", "30", "--format", "json", "-o", folder, "--hosts", "anna,berta"}));
  const Json json = parsed(answer);
  for (const char* kind : {"baseline", "symmetric", "asymmetric-1"})
    for (const char* file : {"job.toml", "megatron.sh", "nemo.yaml", "devices.sh", "hostfile"})
      CHECK(std::filesystem::exists(Path(folder) / (std::string(kind) + "-" + file)));
  CHECK(std::filesystem::exists(Path(folder) / "report.html"));
  const Json simulated =
      parsed(call({"simulate", folder + "/symmetric-job.toml", "--format", "json"}));
  CHECK(simulated["step_time_s"].get<double>() == doctest::Approx(step_of(json, "symmetric")));
  const auto devices = must(read_file(Path(folder) / "symmetric-devices.sh"));
  CHECK(contains(devices, "1) export CUDA_VISIBLE_DEVICES=1,2,5,7,0,3,4,6 ;;"));
  const auto hosts = must(read_file(Path(folder) / "baseline-hostfile"));
  CHECK(hosts == "anna slots=8\nberta slots=8\n");
  const auto megatron = must(read_file(Path(folder) / "asymmetric-1-megatron.sh"));
  CHECK(contains(megatron, "--use-tp-pp-dp-mapping"));
  CHECK(contains(megatron, "--pipeline-model-parallel-layout"));
}

TEST_CASE("place: a run that knows its job needs nothing else, and says the same") {
  const ScratchFolder scratch;
  const std::string run = scratch.path("base.run");
  REQUIRE(call(job_and("simulate", {"-o", run})).code == exit_ok);
  const Json of_run = parsed(call({"place", "--from", run, "--judge", "30", "--format", "json"}));
  const Json of_job = parsed(call(job_and("place", {"--judge", "30", "--format", "json"})));
  CHECK(of_run["thermal_groups"]["cold_first_order"] ==
        of_job["thermal_groups"]["cold_first_order"]);
  CHECK(step_of(of_run, "symmetric") == doctest::Approx(step_of(of_job, "symmetric")));
}

TEST_CASE("place: a table of one node stands for all nodes, one of other nodes is refused") {
  const std::string table = TPT_SOURCE_DIR "/tests/golden/smi.csv";
  const Json json =
      parsed(call(job_and("place", {"--from", table, "--judge", "30", "--format", "json"})));
  REQUIRE(json["notes"].size() == 2);
  CHECK(contains(json["notes"][0].get<std::string>(), "as warm as the measured one"));
  CHECK(contains(json["notes"][1].get<std::string>(), "energy is the site's"));
  const ScratchFolder scratch;
  const std::string three =
      scratch.file("three.csv", "node,index,temp_c\na,0,50\nb,0,51\nc,0,52\n");
  const Outcome refused = call(job_and("place", {"--from", three}));
  CHECK(refused.code == exit_failed);
  CHECK(contains(refused.err, "the telemetry is of 3 nodes"));
}

TEST_CASE("place: a recording without GPUs is refused, with or without a job") {
  const ScratchFolder scratch;
  const std::string file = scratch.path("t0.run");
  run::Run run;  // as record writes it where no sensor is found
  run.steps.push_back({.begin = Instant(), .end = instant_at(1 * unit::s)});
  REQUIRE(run::save(run, file));
  for (const Outcome& answer :
       {call({"place", "--from", file}), call(job_and("place", {"--from", file}))}) {
    CHECK(answer.code == exit_failed);
    CHECK(contains(answer.err, "t0.run: no GPU was recorded"));
  }
}

TEST_CASE("place: what cannot be placed is refused with a way out") {
  const ScratchFolder scratch;
  const std::string blind = scratch.file("blind.csv", "index,power_w\n0,600\n1,610\n");
  const std::string strange = scratch.file("strange.csv", "time,value\n0,600\n");
  const std::string far = scratch.file("far.csv", "index,temp_c\n0,60\n99999999999,71\n");
  const Outcome typing_error = call({"place", "--from", far});
  CHECK(contains(typing_error.out, "1 rows name no single GPU (\"99999999999\")"));
  CHECK(contains(call({"place"}).err, "nothing to place"));
  CHECK(contains(call({"place", "--from", blind}).err, "no GPU has a reading of temperature"));
  CHECK(contains(call({"place", "--from", strange}).err, "no column of readings is known"));
  CHECK(contains(call({"place", "--from", scratch.path("none.run")}).err, "none.run"));
  CHECK(contains(call(job_and("place", {"--judge", "0"})).err, "it counts from 1"));
  CHECK(contains(
      call(job_and("place", {"--judge", "10", "-o", scratch.path("x"), "--hosts", "a"})).err,
      "--hosts names 1 nodes"));
}

}  // namespace triplepoint::cli
