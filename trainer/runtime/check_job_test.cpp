// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/check_job.h"

#include <string>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

namespace triplepoint::trainer {
namespace {

spec::Job tiny_mixtral_job() {
  const Result<spec::Job> job = spec::parse_job(spec::default_library(), R"(
model = "tiny-mixtral"
cluster = "laptop"
nodes = 2
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
    spec::Job job = tiny_mixtral_job();
    CHECK(check_shapes(job).has_value());
    change(job.model);
    const Result<void> checked = check_shapes(job);
    REQUIRE_FALSE(checked.has_value());
    return checked.error().what;
  };
  const auto says = [](const std::string& text, const char* part) {
    CHECK(text.find(part) != std::string::npos);
  };
  says(refusal([](spec::Model& m) { m.layer_pattern = "*-"; }), "a layer_pattern");
  says(refusal([](spec::Model& m) { m.sliding_window = spec::SlidingWindow{.size = 4}; }),
       "a sliding window");
  says(refusal([](spec::Model& m) { m.multi_token_prediction = spec::MultiTokenPrediction{}; }),
       "multi-token prediction");
  says(refusal([](spec::Model& m) { m.moe->latent_size = 8; }), "latent width");
}

}  // namespace triplepoint::trainer
