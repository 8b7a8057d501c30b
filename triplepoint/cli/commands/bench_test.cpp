// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/run/store.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/command_testing.h"
#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::contains;
using testing::Outcome;

/// A suite of one small job that takes a minute.
constexpr const char* tiny_suite = R"([suite]
name = "tiny"
version = 1
title = "One small job"
warm_up = "20 s"
duration = "60 s"
repeats = 1
stack = "megatron-core"
[[job]]
name = "small"
model = "llama3.2-1b"
sequence_length = 2048
sequences_per_gpu = 4
[[metric]]
name = "tokens_per_second_per_gpu"
weight = 0.5
[[metric]]
name = "joules_per_token"
weight = 0.5
[[metric]]
name = "temperature_peak_c"
weight = 0.1
halves = 40
)";

std::string write_suite(const ScratchFolder& folder) {
  const std::string file = folder.path("tiny-v1.toml");
  REQUIRE(write_file_atomically(file, tiny_suite));
  return file;
}

TEST_CASE("a simulated card scores its cluster, and comes back for a comparison") {
  const ScratchFolder folder;
  const std::string suite = write_suite(folder), out = folder.path("out");
  const Outcome card = call({"bench", suite, "--cluster", "hgx-h200", "--cluster", "dgx-h100",
                             "--format", "json", "-o", out});
  CAPTURE(card.err);
  REQUIRE(card.code == exit_ok);
  const Json json = *parse_json(card.out, "card");
  REQUIRE(json["cards"].size() == 2);
  CHECK(json["cards"][0]["score"] == 1.0);  // the reference, since none is published
  CHECK(json["cards"][1]["jobs"][0]["values"]["tokens_per_second_per_gpu"].is_number());
  CHECK(read_file(Path(folder.path("out/card.html"))));
  CHECK(read_file(Path(folder.path("out/hgx-h200x1/small.toml"))));

  // The plans that were found are taken, not searched for again.
  const Outcome again = call({"bench", suite, "--cluster", "hgx-h200", "--plans",
                              folder.path("out/hgx-h200x1"), "--format", "json"});
  CAPTURE(again.err);
  REQUIRE(again.code == exit_ok);
  CHECK((*parse_json(again.out, "card"))["cards"][0]["jobs"][0]["values"] ==
        json["cards"][0]["jobs"][0]["values"]);
}

TEST_CASE("the published reference scores 1 against itself") {
  // Where this fails, model or data have changed: python3 lab/suite_references.py PROGRAM.
  const Outcome card = call({"bench", "node-v1", "--cluster", "hgx-h200", "--format", "json"});
  REQUIRE(card.code == exit_ok);
  const Json json = *parse_json(card.out, "card");
  CHECK(json["cards"][0]["score"].get<double>() == doctest::Approx(1).epsilon(0.005));
  for (const Json& job : json["cards"][0]["jobs"])
    CHECK(job["score"].get<double>() == doctest::Approx(1).epsilon(0.005));
}

TEST_CASE("runs are scored as they are, and each broken rule is said") {
  const ScratchFolder folder;
  const std::string suite = write_suite(folder);
  const auto read = metrics::load_suite(spec::default_library(), suite);
  REQUIRE(read);
  const auto cluster = spec::load_cluster(spec::default_library(), "hgx-h200");
  const auto stack = spec::load_stack(spec::default_library(), "megatron-core");
  REQUIRE((cluster && stack));
  const Path runs = Path(folder.path("runs"));
  REQUIRE(make_folder(runs));
  spec::Job job = metrics::job_for(read->jobs[0], *cluster, *stack);
  job.plan.precision = spec::Precision::fp16;
  const run::Run run = sim::simulate(job, {.duration = 90 * unit::s, .steps = {}});
  REQUIRE(run::save(run, (runs / "small-1.run").string()));
  const Outcome card = call({"bench", suite, "--runs", runs.string()});
  CAPTURE(card.err);
  REQUIRE(card.code == exit_ok);
  CHECK(contains(card.out, "precision is fp16, not bf16"));
  CHECK(contains(card.out, "unofficial"));
}

TEST_CASE("what is no card, no suite or no cluster is refused with a way out") {
  const ScratchFolder folder;
  const std::string file = folder.path("a.json");
  REQUIRE(write_file_atomically(file, "[]"));
  CHECK(contains(call({"bench", "compare", file, file}).err, "no score card"));
  CHECK(contains(call({"bench", "compare", file}).err, "two cards or more"));
  CHECK(contains(call({"bench", "trainin-v1", "--cluster", "hgx-h200"}).err, "training-v1"));
  CHECK(contains(call({"bench", "training-v1"}).err, "--cluster"));
  CHECK(contains(call({"bench", "training-v1", "--cluster", "hgx-h20"}).err, "hgx-h200"));
  CHECK(contains(call({"bench", "training-v1", "--runs", folder.folder().string()}).err, ".run"));
}

}  // namespace
}  // namespace triplepoint::cli
