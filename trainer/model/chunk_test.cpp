// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/check_shapes.h"
#include "trainer/model/model_testing.h"

using namespace triplepoint;
using namespace triplepoint::trainer;
using namespace triplepoint::trainer::testing;

namespace {

std::vector<spec::Model> models() {
  spec::Model dropping = tiny_gpt();
  dropping.dropout = 0.2;
  spec::Model tied = tiny_llama();
  tied.tied_embeddings = true;
  tied.activation = spec::Activation::squared_relu;
  return {tiny_gpt(), dropping, tiny_llama(), tied, tiny_mixtral()};
}

}  // namespace

TEST_CASE("loss and every gradient equal the plain reference's") {
  for (const spec::Model& model : models())
    check_against_reference(job_of(model));
}

TEST_CASE("the reference's own gradients are slopes of its loss") {
  const spec::Job job = job_of(tiny_mixtral());
  const Outcome at = reference_outcome(job);
  const TestBatch batch = test_batch(job.model, 0, 4);
  for (const std::string name : {"layers.1.attention.qkv.weight", "layers.0.router.weight",
                                 "layers.0.experts.1.down.weight", "embedding.weight"}) {
    const auto loss = [&](double change) {
      ReferenceInput input{job.model, job.plan, 4, 2, batch.inputs, batch.targets};
      input.value = [&](const std::string& n, int64_t row, int64_t column) {
        return test_value(n, row, column) + (n == name && row == 1 && column == 2 ? change : 0);
      };
      return run_reference(input).loss;
    };
    const auto columns = at.gradients.at(name).size() / (name == "embedding.weight" ? 21 : 1);
    const size_t width = name == "embedding.weight"       ? columns
                         : name.find("down") != name.npos ? 8
                                                          : 16;
    CHECK(at.gradients.at(name)[width + 2] ==
          doctest::Approx((loss(1e-5) - loss(-1e-5)) / 2e-5).epsilon(1e-5).scale(0.01));
  }
}

TEST_CASE("recomputing layers changes nothing") {
  for (const spec::Model& model : models())
    for (const bool flash : {true, false})
      for (const auto recompute :
           {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full}) {
        spec::Job job = job_of(model);
        job.stack.attention_kernels =
            flash ? spec::AttentionKernels::native : spec::AttentionKernels::unfused;
        job.plan.recompute = recompute;
        if (recompute == spec::Recompute::full && flash) job.plan.recompute_layers = 1;
        check_against_reference(job);
      }
}

TEST_CASE("a backward pass in two halves is the same pass") {
  for (const spec::Model& model : models())
    check_against_reference(job_of(model), Backward::split);
}

TEST_CASE("a model in two chunks is the same model") {
  for (const spec::Model& model : models()) {
    if (model.tied_embeddings) continue;  // gradients add up over stages, which is not done here
    spec::Job job = job_of(model, 2);
    job.plan.pipeline_parallel_size = 2;
    job.plan.global_batch_size = 4;
    check_against_reference(job);
  }
}

TEST_CASE("adapters are trained and the base is not") {
  spec::Model shared = tiny_mixtral();
  shared.moe->shared_expert_ffn_hidden_size = 8;
  for (const spec::Model& model : {tiny_gpt(), tiny_llama(), shared}) {
    spec::Job job = job_of(model);
    job.task = spec::Task::lora;
    job.plan.lora = spec::Lora{
        .rank = 4, .targets = {"attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2"}};
    check_against_reference(job);
    check_against_reference(job, Backward::split);
    for (const auto& [name, gradient] : play(job).gradients)
      CHECK(name.find("lora") != std::string::npos);
  }
}

TEST_CASE("experts in every second layer train beside dense layers") {
  spec::Model model = tiny_mixtral();
  model.moe->layer_period = 2;
  check_against_reference(job_of(model));
}

TEST_CASE("what is predicted but not programmed is refused by name") {
  const auto refusal = [](const auto& change) {
    spec::Job job = job_of(tiny_mixtral());
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

TEST_CASE("a full expert drops tokens, alike with and without padding") {
  for (const bool pads : {false, true})
    for (const double factor : {0.5, 1.0, 2.0}) {
      spec::Model model = tiny_mixtral();
      model.moe->capacity_factor = factor;
      model.moe->pad_to_capacity = pads;
      check_against_reference(job_of(model));
    }
}

TEST_CASE("one expert a token weighs with its probability among all") {
  spec::Model model = tiny_mixtral();
  model.moe->router_topk = 1;
  check_against_reference(job_of(model));
}

TEST_CASE("numbers rounded to bf16 train nearly the same") {
  for (const spec::Model& model : models()) {
    spec::Job job = job_of(model);
    const Outcome exact = reference_outcome(job);
    job.plan.precision = spec::Precision::bf16;
    const Outcome rounded = play(job);
    CHECK(rounded.loss != exact.loss);
    CHECK(rounded.loss == doctest::Approx(exact.loss).epsilon(0.02));
    double square = 0, difference = 0;
    for (const auto& [name, gradient] : rounded.gradients)
      for (size_t i = 0; i < gradient.size(); ++i) {
        if (i >= exact.gradients.at(name).size()) continue;  // padding of the vocabulary
        const double right = exact.gradients.at(name)[i];
        square += right * right;
        difference += (gradient[i] - right) * (gradient[i] - right);
      }
    CHECK(std::sqrt(difference / square) < 0.1);
  }
}
