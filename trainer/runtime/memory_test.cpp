// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainer/runtime/test_models.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

constexpr std::array<const char*, memory_term_count> term_names = {
    "weights", "gradients", "optimizer", "activations", "logits", "buffers"};

/// Large enough for the small arrays beside the large ones to be small.
spec::Job middle_job(spec::Model model, int64_t ranks) {
  model.hidden_size = 128;
  model.ffn_hidden_size = 512;
  model.kv_channels = 128 / model.num_attention_heads;
  model.sequence_length = 64;
  model.vocabulary_size = 128;
  if (model.moe) model.moe->ffn_hidden_size = 256;
  spec::Job job = test::tiny_job(std::move(model), ranks);
  job.plan.global_batch_size = 4 * ranks;
  return job;
}

/// Terms of more than a twentieth of the total that are off by more than `share`, per rank.
std::string wrong_terms(const spec::Job& job, double share = 0.1) {
  TrainSettings settings;
  settings.steps = 2;
  settings.peak_flops = 1e9;
  const Result<TrainOutcome> outcome =
      train_with_threads(job, settings, {endpoint_settings(job, 60), Carrier::automatic, {}});
  if (!outcome) return outcome.error().what;
  std::string wrong;
  for (const TrainReport& rank : outcome->all) {
    double total = 0;
    for (const double bytes : rank.expected_memory)
      total += bytes;
    for (size_t term = 0; term < memory_term_count; ++term) {
      const double model = rank.expected_memory[term], held = rank.memory[term];
      if (std::max(model, held) < total / 20 || std::abs(held - model) <= share * model) continue;
      wrong += fmt::format("rank {} {}: {:.0f} held, {:.0f} by the model (of {:.0f})\n", rank.rank,
                           term_names[term], held, model, total);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("peak memory has the terms of the memory model on one rank") {
  CHECK(wrong_terms(middle_job(test::tiny_gpt(), 1)) == "");
  CHECK(wrong_terms(middle_job(test::tiny_llama(), 1)) == "");
  // The model counts rows of experts four times; what is sent to oneself is not kept twice.
  CHECK(wrong_terms(middle_job(test::tiny_mixtral(), 1), 0.15) == "");
}

TEST_CASE("peak memory has the terms of the memory model when layers are recomputed") {
  spec::Job job = middle_job(test::tiny_llama(), 1);
  for (const auto recompute : {spec::Recompute::selective, spec::Recompute::full}) {
    job.plan.recompute = recompute;
    CHECK(wrong_terms(job) == "");
  }
}

TEST_CASE("peak memory has the terms of the memory model under tensor parallelism") {
  spec::Job job = middle_job(test::tiny_llama(), 2);
  job.plan.tensor_parallel_size = 2;
  CHECK(wrong_terms(job) == "");
  job.plan.sequence_parallel = true;
  CHECK(wrong_terms(job) == "");
}

TEST_CASE("peak memory has the terms of the memory model in every schedule") {
  spec::Job job = middle_job(test::tiny_llama(), 2);
  job.plan.pipeline_parallel_size = 2;
  for (const auto schedule :
       {spec::Schedule::gpipe, spec::Schedule::one_f_one_b, spec::Schedule::zero_bubble}) {
    job.plan.schedule = schedule;
    CAPTURE(static_cast<int>(schedule));
    // What a put off weight gradient needs of the backward pass is not in the model.
    CHECK(wrong_terms(job, schedule == spec::Schedule::zero_bubble ? 0.15 : 0.1) == "");
  }
  job.plan.virtual_pipeline_size = 2;
  CHECK(wrong_terms(job) == "");
}

TEST_CASE("peak memory has the terms of the memory model however states are sharded") {
  spec::Job job = middle_job(test::tiny_llama(), 4);
  for (const auto sharding : {spec::Sharding::none, spec::Sharding::optimizer,
                              spec::Sharding::gradients, spec::Sharding::parameters}) {
    job.plan.sharding = sharding;
    // FSDP's peak is the model's where a layer's activations outweigh its parameters: otherwise it
    // comes later, when two gradients are there.
    job.plan.micro_batch_size = sharding == spec::Sharding::parameters ? 4 : 1;
    CAPTURE(static_cast<int>(sharding));
    CHECK(wrong_terms(job) == "");
  }
}

TEST_CASE("peak memory has the terms of the memory model with experts on other ranks") {
  spec::Job job = middle_job(test::tiny_mixtral(), 2);
  job.plan.expert_parallel_size = 2;
  CHECK(wrong_terms(job, 0.15) == "");
}

}  // namespace triplepoint::trainer
