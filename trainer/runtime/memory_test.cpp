// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainer/runtime/jobs_testing.h"
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
      train_with_threads(job, settings, endpoint_settings(job, 60));
  if (!outcome) return outcome.error().what;
  std::string wrong;
  for (const TrainReport& rank : outcome->all) {
    const double total = sum_of(rank.expected_memory);
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
    CHECK(wrong_terms(job) == "");
  }
  job.plan.virtual_pipeline_size = 2;
  CHECK(wrong_terms(job) == "");
}

TEST_CASE("peak memory has the terms of the memory model however states are sharded") {
  spec::Job job = middle_job(test::tiny_llama(), 4);
  for (const auto sharding : {spec::Sharding::none, spec::Sharding::optimizer,
                              spec::Sharding::gradients, spec::Sharding::parameters}) {
    job.plan.sharding = sharding;
    CAPTURE(static_cast<int>(sharding));
    CHECK(wrong_terms(job) == "");
  }
}

TEST_CASE(
    "peak memory has the terms of the memory model whichever of FSDP's layers outweighs what") {
  for (const int64_t micro : {1, 4})
    for (const bool reshard : {true, false})
      for (const int64_t ahead : {0, 1, 2})
        for (const bool tied : {false, true}) {
          spec::Job job = middle_job(test::tiny_llama(), 4);
          job.plan.sharding = spec::Sharding::parameters;
          job.plan.micro_batch_size = micro;
          job.plan.reshard_after_forward = reshard;
          job.plan.prefetch_depth = ahead;
          job.model.tied_embeddings = tied;
          CAPTURE(micro);
          CAPTURE(reshard);
          CAPTURE(ahead);
          CAPTURE(tied);
          CHECK(wrong_terms(job) == "");
        }
}

TEST_CASE("peak memory has the terms of the memory model where weight gradients are put off") {
  for (const bool sequence : {false, true})
    for (const auto recompute :
         {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full}) {
      spec::Job job = middle_job(test::tiny_llama(), 4);
      job.plan.schedule = spec::Schedule::zero_bubble;
      job.plan.pipeline_parallel_size = 2;
      job.plan.tensor_parallel_size = 2;
      job.plan.sequence_parallel = sequence;
      job.plan.recompute = recompute;
      CAPTURE(sequence);
      CAPTURE(static_cast<int>(recompute));
      CHECK(wrong_terms(job) == "");
    }
}

TEST_CASE("peak memory has the terms of the memory model with words that outweigh the layers") {
  spec::Job job = middle_job(test::tiny_gpt(), 2);
  job.model.vocabulary_size = 4096;
  for (const int64_t stages : {1, 2}) {
    job.plan.pipeline_parallel_size = stages;
    CAPTURE(stages);
    CHECK(wrong_terms(job) == "");
  }
}

}  // namespace triplepoint::trainer
