// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/prediction_interval.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace triplepoint::metrics {
namespace {

const spec::Library library = spec::default_library();

PredictionIntervals intervals() {
  auto loaded = PredictionIntervals::load(library);
  REQUIRE_MESSAGE(loaded, loaded.error().what);
  return *std::move(loaded);
}

spec::Job job_with(const char* model, const char* cluster) {
  spec::Job job;
  job.model = spec::load_model(library, model).value();
  job.cluster = spec::load_cluster(library, cluster).value();
  job.stack = spec::load_stack(library, "megatron-core").value();
  return job;
}

std::string level(const Regime& regime, const std::string& feature) {
  const auto found =
      std::ranges::find_if(regime, [&](const auto& entry) { return entry.first == feature; });
  REQUIRE(found != regime.end());
  return found->second;
}

TEST_CASE("the predicted value lies inside its interval, whatever the job") {
  for (const char* cluster : {"dgx-h100", "dgx-a100", "gb300-nvl72", "mi300x", "jean-zay-v100"})
    for (const char* model : {"llama3-8b", "deepseek-v3"}) {
      const spec::Job job = job_with(model, cluster);
      for (const auto& interval : {intervals().step_time(job, 10), intervals().rate(job, 10),
                                   intervals().memory(job, 10)}) {
        REQUIRE(interval);
        CHECK(interval->low < 10);
        CHECK(interval->high > 10);
      }
    }
}

TEST_CASE("a rate is as uncertain as the time it is the inverse of") {
  const spec::Job job = job_with("llama3-8b", "dgx-h100");
  const auto time = intervals().step_time(job, 2), rate = intervals().rate(job, 0.5);
  CHECK(rate->low == doctest::Approx(1 / time->high));
  CHECK(rate->high == doctest::Approx(1 / time->low));
}

TEST_CASE("a job tells its regime") {
  spec::Job job = job_with("deepseek-v3", "dgx-h100");
  job.plan.precision = spec::Precision::mxfp8;
  job.cluster.num_nodes = 16;
  const Regime regime = intervals().regime_of(job);
  CHECK(level(regime, "experts") == "moe");
  CHECK(level(regime, "bits") == "8");
  CHECK(level(regime, "kernels") == "measured");
  CHECK(level(regime, "nodes") == "2-16");
  CHECK(level(regime, "sequence") == "under 128k");
  CHECK(level(intervals().regime_of(job_with("llama3-8b", "mi300x")), "kernels") == "not measured");
  job.model.sequence_length = 131072;
  CHECK(level(intervals().regime_of(job), "sequence") == "128k+");
}

TEST_CASE("inference has no interval") {
  spec::Job job = job_with("llama3-8b", "dgx-h100");
  job.task = spec::Task::decode;
  CHECK(!intervals().step_time(job, 1));
}

TEST_CASE("of two plans, the further apart, the surer, and equal ones are a tie") {
  const PredictionIntervals all = intervals();
  CHECK(all.probability_longer(1, 1) == doctest::Approx(0.5));
  CHECK(all.probability_longer(1.1, 1) > all.probability_longer(1.01, 1));
  CHECK(all.probability_longer(2, 1) > 0.99);
  CHECK(all.probability_longer(1, 1.2) == doctest::Approx(1 - all.probability_longer(1.2, 1)));
  CHECK(is_tie(0.5));
  CHECK(is_tie(0.75));
  CHECK(is_tie(0.794));
  CHECK(!is_tie(0.796));  // prints as 80 %
  CHECK(!is_tie(0.85));
  CHECK(!is_tie(0.1));
}

}  // namespace
}  // namespace triplepoint::metrics
