// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/model_testing.h"

using namespace triplepoint;
using namespace triplepoint::trainer;
using namespace triplepoint::trainer::testing;

namespace {

struct Split {
  int64_t tensor = 1, expert = 1, expert_tensor = 1, data = 1;
  bool sequence_parallel = false;
};

spec::Job split_job(spec::Model model, Split split) {
  spec::Job job = job_of(std::move(model), split.tensor * split.data);
  job.plan.tensor_parallel_size = split.tensor;
  job.plan.expert_parallel_size = split.expert;
  job.plan.expert_tensor_parallel_size = split.expert_tensor;
  job.plan.sequence_parallel = split.sequence_parallel;
  return job;
}

spec::Model with_groups(spec::Model model, int64_t groups) {
  model.num_query_groups = groups;
  return model;
}

}  // namespace

TEST_CASE("tensor parallel ranks compute what one rank computes") {
  spec::Model dropping = tiny_gpt();
  dropping.dropout = 0.2;
  for (const spec::Model& model : {tiny_gpt(), dropping, with_groups(tiny_llama(), 4)})
    for (const int64_t tensor : {2, 4})
      for (const bool sharded : {false, true})
        for (const Backward backward : {Backward::whole, Backward::split}) {
          spec::Job job = split_job(
              model, {.tensor = tensor, .expert_tensor = tensor, .sequence_parallel = sharded});
          check_against_reference(job, backward);
        }
}

TEST_CASE("recompute and unfused attention work under tensor parallelism") {
  for (const auto recompute : {spec::Recompute::selective, spec::Recompute::full})
    for (const bool flash : {false, true}) {
      spec::Job job = split_job(tiny_llama(), {.tensor = 2, .sequence_parallel = true});
      job.plan.recompute = recompute;
      job.stack.attention_kernels =
          flash ? spec::AttentionKernels::native : spec::AttentionKernels::unfused;
      job.stack.fused_activations = flash;  // the loss in one all-reduce or two
      check_against_reference(job);
    }
}

TEST_CASE("overlapped tensor communication computes the same") {
  for (const spec::Model& model : {tiny_gpt(), tiny_llama()}) {
    spec::Job job = split_job(model, {.tensor = 2, .sequence_parallel = true});
    job.plan.overlap_tensor = true;
    check_against_reference(job);
  }
}

TEST_CASE("adapters are cut over the tensor group") {
  for (const bool sharded : {false, true}) {
    spec::Job job = split_job(tiny_gpt(), {.tensor = 2, .sequence_parallel = sharded});
    job.task = spec::Task::lora;
    job.plan.lora = spec::Lora{
        .rank = 3, .targets = {"attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2"}};
    check_against_reference(job);
    check_against_reference(job, Backward::split);
  }
}

TEST_CASE("experts over ranks compute what one rank computes") {
  for (const Split split :
       {Split{.expert = 2, .data = 2}, Split{.tensor = 2, .expert = 1, .expert_tensor = 2},
        Split{.tensor = 2, .expert = 2, .expert_tensor = 2, .data = 2},
        Split{.tensor = 2, .expert = 2, .expert_tensor = 1, .sequence_parallel = true},
        Split{.tensor = 2, .expert = 1, .expert_tensor = 2, .sequence_parallel = true},
        Split{.tensor = 2, .expert = 2, .expert_tensor = 2, .data = 2, .sequence_parallel = true},
        Split{
            .tensor = 2, .expert = 4, .expert_tensor = 1, .data = 2, .sequence_parallel = true}}) {
    spec::Model model = tiny_mixtral();
    check_against_reference(split_job(model, split));
    check_against_reference(split_job(model, split), Backward::split);
    model.moe->shared_expert_ffn_hidden_size = 8;
    model.moe->capacity_factor = 4;  // none is dropped, all is padding
    model.moe->pad_to_capacity = true;
    model.biases = true;
    check_against_reference(split_job(model, split));
  }
}

TEST_CASE("a capacity drops the same tokens however the experts are spread") {
  for (const Split split : {Split{.expert = 2, .data = 2}, Split{.tensor = 2, .expert_tensor = 2}})
    for (const bool pads : {false, true}) {
      spec::Model model = tiny_mixtral();
      model.moe->capacity_factor = 0.75;
      model.moe->pad_to_capacity = pads;
      check_against_reference(split_job(model, split));
    }
}
