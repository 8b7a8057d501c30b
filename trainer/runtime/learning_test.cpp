// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

#include "trainer/runtime/jobs_testing.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

TrainSettings settings_of(int64_t steps) {
  TrainSettings settings;
  settings.steps = steps;
  settings.rate.peak = 2e-3;
  settings.peak_flops = 1e9;
  return settings;
}

Result<TrainOutcome> run(const spec::Job& job, const TrainSettings& settings) {
  return train_with_threads(job, settings, endpoint_settings(job, 60));
}

std::vector<double> losses(const spec::Job& job, const TrainSettings& settings) {
  const Result<TrainOutcome> outcome = run(job, settings);
  if (!outcome) FAIL(outcome.error().what);
  return mapped(outcome->own.steps, &StepResult::loss);
}

spec::Job sharded(spec::Sharding sharding, int64_t ranks) {
  spec::Job job = test::tiny_job(test::tiny_llama(), ranks);
  job.plan.sharding = sharding;
  return job;
}

}  // namespace

TEST_CASE("a training whose numbers are not finite stops and says why") {
  for (const int64_t ranks : {1, 4}) {
    spec::Job job = sharded(spec::Sharding::optimizer, ranks);
    if (ranks > 1) job.plan.tensor_parallel_size = job.plan.pipeline_parallel_size = 2;
    TrainSettings settings = settings_of(8);
    settings.rate.peak = 1e30;
    settings.weight_decay = 0;
    const Result<TrainOutcome> outcome = run(job, settings);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().what.find("loss") != std::string::npos);
    CHECK(outcome.error().what.find("--lr 1e+30") != std::string::npos);
  }
}

TEST_CASE("a tiny model learns a text by heart") {
  const ScratchFolder folder;
  REQUIRE(make_folder(folder.folder()));
  const std::string poem =
      "Shall I compare thee to a summer's day? Thou art more lovely and more temperate: "
      "Rough winds do shake the darling buds of May, and summer's lease hath all too short a date.";
  REQUIRE(write_file_atomically(folder / "poem.txt", poem));
  spec::Job job = sharded(spec::Sharding::optimizer, 2);
  job.model.vocabulary_size = 256;
  job.plan.global_batch_size = 10;
  job.plan.micro_batch_size = 5;
  TrainSettings settings = settings_of(150);
  settings.data = (folder / "poem.txt").string();
  settings.rate.peak = 1e-2;
  settings.weight_decay = 0;
  const std::vector<double> all = losses(job, settings);
  CHECK(all.front() > 5);
  CHECK(all.back() < 0.1);
}

TEST_CASE("synthetic words can be learned far below chance") {
  spec::Job job = sharded(spec::Sharding::none, 1);
  TrainSettings settings = settings_of(120);
  settings.rate.peak = 1e-2;
  // ln 60 = 4.09; the chain's own entropy is 1.14.
  CHECK(losses(job, settings).back() < 3);
}

}  // namespace triplepoint::trainer
