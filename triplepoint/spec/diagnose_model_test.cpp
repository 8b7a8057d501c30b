// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/diagnose_model.h"

#include <string>

#include <doctest/doctest.h>

namespace triplepoint::spec {
namespace {

/// Two layers of a transformer, written as a hybrid with a state-space layer before each.
Job hybrid() {
  Job job;
  job.model.num_layers = 6;
  job.model.layer_pattern = "M*-M*E";
  job.model.state_space = StateSpace{.num_heads = 16};
  job.model.moe = MixtureOfExperts{.ffn_hidden_size = 64};
  return job;
}

Job windowed() {
  Job job;
  job.model.num_layers = 2;
  job.model.sliding_window = SlidingWindow{.size = 128, .full_every = 2};
  return job;
}

bool refuses(const Job& job, const char* word) {
  for (const Diagnosis& found : diagnose_model(job))
    if (found.severity == Diagnosis::Severity::error &&
        found.what.find(word) != std::string::npos && found.what.find("; ") != std::string::npos)
      return true;
  return false;
}

TEST_CASE("windows and patterns that fit are fine as they come") {
  CHECK(diagnose_model(hybrid()).empty());
  CHECK(diagnose_model(windowed()).empty());
}

TEST_CASE("a pattern has a known letter for every layer") {
  Job job = hybrid();
  job.model.layer_pattern = "M*-M*";
  CHECK(refuses(job, "num_layers"));
  job.model.layer_pattern = "M*-M*G";
  CHECK(refuses(job, "'G' at place 5"));
}

TEST_CASE("a letter needs the sizes of what it stands for, and sizes need a letter") {
  Job job = hybrid();
  job.model.state_space.reset();
  CHECK(refuses(job, "[model.state_space]"));
  job = hybrid();
  job.model.moe.reset();
  CHECK(refuses(job, "[model.moe]"));
  job = hybrid();
  job.model.layer_pattern.reset();
  CHECK(refuses(job, "no layer would use it"));
}

TEST_CASE("groups of a state space are split over tensor ranks, heads over context ranks too") {
  Job job = hybrid();
  job.plan.tensor_parallel_size = 16;
  CHECK(refuses(job, "num_groups"));
  job.plan.tensor_parallel_size = 8;
  CHECK_FALSE(refuses(job, "divide"));
  job.plan.context_parallel_size = 4;
  CHECK(refuses(job, "num_heads"));
}

TEST_CASE("adapters on state-space layers are refused") {
  Job job = hybrid();
  job.plan.lora = Lora();
  CHECK(refuses(job, "state-space"));
}

TEST_CASE("a window holds a token and stands in no pattern") {
  Job job = windowed();
  job.model.sliding_window->size = 0;
  CHECK(refuses(job, "size 0"));
  job = windowed();
  job.model.layer_pattern = "**";
  CHECK(refuses(job, "layer_pattern"));
}

TEST_CASE("a depth of prediction has a pattern where the model has one") {
  Job job = hybrid();
  job.model.multi_token_prediction = MultiTokenPrediction();
  CHECK(refuses(job, "both or neither"));
  job.model.multi_token_prediction->layer_pattern = "*E";
  CHECK_FALSE(refuses(job, "both or neither"));
}

TEST_CASE("the pattern alone says which layers have experts") {
  Job job = hybrid();
  job.model.moe->num_dense_layers = 1;
  CHECK(refuses(job, "num_dense_layers"));
}

}  // namespace
}  // namespace triplepoint::spec
