// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/check_job.h"

#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "trainer/runtime/train.h"

namespace triplepoint::trainer {
namespace {

spec::Job tiny_llama_job() {
  const Result<spec::Job> job = spec::parse_job(spec::default_library(), R"(
model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
global_batch_size = 8
precision = "fp32"
optimizer = "fp32_adamw"
)",
                                                "check_job_test");
  REQUIRE_MESSAGE(job, job.error().what);
  return *job;
}

}  // namespace

TEST_CASE("what is predicted but not programmed is refused by name") {
  const auto refusal = [](const auto& change) {
    spec::Job job = tiny_llama_job();
    CHECK(check_shapes(job).has_value());
    change(job.model);
    const Result<void> checked = check_shapes(job);
    REQUIRE_FALSE(checked.has_value());
    return checked.error().what;
  };
  const auto says = [](const std::string& text, const char* part) { CHECK(contains(text, part)); };
  says(refusal([](spec::Model& m) { m.layer_pattern = "*-"; }), "a layer_pattern");
  says(refusal([](spec::Model& m) { m.sliding_window = spec::SlidingWindow{.size = 4}; }),
       "a sliding window");
  says(refusal([](spec::Model& m) { m.multi_token_prediction = spec::MultiTokenPrediction{}; }),
       "multi-token prediction");
  says(refusal([](spec::Model& m) { m.moe = spec::MixtureOfExperts{}; }), "experts");
}

TEST_CASE("settings that cannot train are refused with their flag") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const char* flag, const auto& change) {
    TrainSettings settings;
    CHECK(check_settings(settings).has_value());
    change(settings);
    const Result<void> checked = check_settings(settings);
    CAPTURE(flag);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().what.find(flag) == 0);
    CHECK(contains(checked.error().what, "; "));
  };
  for (const double rate : {nan, infinity, -1.0, 0.0, 1e300})
    refused("--lr", [&](TrainSettings& s) { s.rate.peak = rate; });
  for (const double decay : {nan, -1.0, infinity, 1e300, 1000.0})
    refused("--weight-decay", [&](TrainSettings& s) { s.weight_decay = decay; });
  refused("--clip", [](TrainSettings& s) { s.clip = nan; });
  refused("--steps", [](TrainSettings& s) { s.steps = std::numeric_limits<int64_t>::max(); });
  refused("--warmup", [](TrainSettings& s) { s.rate.warmup_steps = -1; });
}

TEST_CASE("a dropout is refused, as is one that drops everything") {
  for (const double dropout : {0.1, 1.0, 7.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    spec::Job job = tiny_llama_job();
    job.model.dropout = dropout;
    const Result<void> checked = check_job(job);
    REQUIRE_FALSE(checked.has_value());
    CHECK(contains(checked.error().what, "dropout"));
  }
}

}  // namespace triplepoint::trainer
