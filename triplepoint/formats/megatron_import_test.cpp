// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/formats/fixtures_testing.h"
#include "triplepoint/formats/pipeline_layout.h"

namespace triplepoint::formats {
namespace {

using enum spec::DiagnosisCode;
using Severity = spec::Diagnosis::Severity;

Imported import(const std::string& text, const ImportHints& hints = {}) {
  const auto imported = import_megatron_args(spec::default_library(), text, "run.sh", hints);
  REQUIRE_MESSAGE(imported.has_value(), (imported ? "" : imported.error().what));
  return *imported;
}

/// A whole command line with these arguments in addition.
std::string line(const std::string& more) {
  return "torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size "
         "4096 "
         "--num-attention-heads 32 --seq-length 2048 --micro-batch-size 1 --global-batch-size 64 " +
         more;
}

TEST_CASE("a Megatron launch script with variables and arrays becomes the job it starts") {
  const Imported imported = import(fixture("pretrain_gpt.sh"));
  const spec::Job& job = imported.job;
  CHECK(imported.diagnoses.empty());
  CHECK(job.cluster.name == "hgx-h100");
  CHECK(job.cluster.num_nodes == 8);
  CHECK(job.stack.name == "megatron-core");
  CHECK(job.model.num_query_groups == 8);
  CHECK(job.model.activation == spec::Activation::swiglu);
  CHECK(job.model.normalization == spec::Normalization::rms_norm);
  CHECK(job.model.vocabulary_size == 32000);
  CHECK(job.model.dropout == 0);
  CHECK_FALSE(job.model.tied_embeddings);
  CHECK_FALSE(job.model.biases);
  CHECK(job.plan.tensor_parallel_size == 4);
  CHECK(job.plan.pipeline_parallel_size == 2);
  CHECK(job.data_parallel_size() == 8);
  CHECK(job.plan.global_batch_size == 256);
  CHECK(job.plan.sequence_parallel);
  CHECK(job.plan.sharding == spec::Sharding::optimizer);
  CHECK(job.plan.overlap_gradient);
  CHECK_FALSE(job.plan.overlap_parameter);
  CHECK(job.plan.recompute_layers == 4);
  CHECK(job.plan.precision == spec::Precision::bf16);
  CHECK(job.plan.optimizer.gradient_bytes == 4);
}

TEST_CASE("a file of Megatron arguments becomes a job on the cluster the caller names") {
  ImportHints hints;
  hints.cluster = "dgx-a100";
  hints.num_nodes = 1;
  const Imported imported = import(fixture("arguments.txt"), hints);
  CHECK(imported.diagnoses.empty());
  CHECK(imported.job.world_size() == 8);
  CHECK(imported.job.model.ffn_hidden_size == 4 * 768);
  CHECK(imported.job.model.vocabulary_size == 50257);
  CHECK(imported.job.plan.precision == spec::Precision::fp16);
  CHECK(imported.job.plan.optimizer.gradient_bytes == 2);
}

TEST_CASE("Megatron's interleaved schedule is read from either of its two arguments") {
  const std::string stages = "--pipeline-model-parallel-size 4 ";
  const spec::Plan by_layers =
      import(line(stages + "--num-layers-per-virtual-pipeline-stage 2")).job.plan;
  const spec::Plan by_chunks =
      import(line(stages + "--num-virtual-stages-per-pipeline-rank 4")).job.plan;
  CHECK(by_layers == by_chunks);
  CHECK(by_layers.virtual_pipeline_size == 4);
  CHECK(by_layers.schedule == spec::Schedule::interleaved);
  CHECK(by_layers.overlap_pipeline);
}

TEST_CASE("uneven stages are read from their ends, from a layout, or where the loss is a layer") {
  const std::string stages = "--pipeline-model-parallel-size 4 ";
  using Layers = std::vector<int64_t>;
  CHECK(import(line(stages + "--decoder-first-pipeline-num-layers 7 "
                             "--decoder-last-pipeline-num-layers 5"))
            .job.plan.layers_per_stage == Layers{7, 10, 10, 5});
  CHECK(import(line(stages + "--pipeline-model-parallel-layout 'Et*9|(t*8|)*2t*7L'"))
            .job.plan.layers_per_stage == Layers{9, 8, 8, 7});
  const std::string two_more =
      "--num-layers 30 --account-for-embedding-in-pipeline-split "
      "--account-for-loss-in-pipeline-split";
  CHECK(import(line(stages + two_more)).job.plan.layers_per_stage == Layers{7, 8, 8, 7});
}

TEST_CASE("a layout that is written reads back") {
  for (const std::vector<int64_t>& layers :
       {std::vector<int64_t>{3, 2, 2, 1}, std::vector<int64_t>{1}, std::vector<int64_t>{0, 5, 0}})
    CHECK(read_pipeline_layout(write_pipeline_layout(layers)) == layers);
  CHECK_FALSE(read_pipeline_layout("Ett|x").has_value());
  CHECK_FALSE(read_pipeline_layout("(t|*2").has_value());
}

TEST_CASE("each way Megatron shards is told apart") {
  const auto sharding = [](const std::string& more) {
    return import(line(more)).job.plan.sharding;
  };
  CHECK(sharding("") == spec::Sharding::none);
  CHECK(sharding("--use-distributed-optimizer") == spec::Sharding::optimizer);
  const std::string fsdp = "--use-distributed-optimizer --use-megatron-fsdp ";
  CHECK(sharding(fsdp + "--data-parallel-sharding-strategy optim_grads") ==
        spec::Sharding::gradients);
  CHECK(sharding(fsdp + "--data-parallel-sharding-strategy optim_grads_params") ==
        spec::Sharding::parameters);
  CHECK(sharding("--use-torch-fsdp2") == spec::Sharding::parameters);
}

TEST_CASE(
    "without a width Megatron takes four times the hidden size, two thirds of it for SwiGLU") {
  CHECK(import(line("")).job.model.ffn_hidden_size == 16384);
  CHECK(import(line("--swiglu")).job.model.ffn_hidden_size == 10880);
}

TEST_CASE("leading dense layers of a mixture of experts are read from Megatron's pattern") {
  const Imported imported =
      import(line("--num-experts 8 --moe-layer-freq '([0]*3+[1]*29)' "
                  "--moe-token-dispatcher-type alltoall"));
  REQUIRE(imported.job.model.moe.has_value());
  CHECK(imported.job.model.moe->num_dense_layers == 3);
  CHECK(finds(
      import(line("--num-experts 8 --moe-layer-freq 2")), unsupported, Severity::error,
      "run.sh:1: --moe-layer-freq '2' is not modelled (dense layers may only come first); try "
      "1 or \"([0]*n+[1]*m)\" with n + m layers"));
}

TEST_CASE("an unknown Megatron argument is named, with what was probably meant") {
  CHECK(finds(import(line("--tensor-model-paralel-size 8")), unsupported, Severity::error,
              "run.sh:1: unknown key '--tensor-model-paralel-size' (it is ignored); did you mean "
              "\"--tensor-model-parallel-size\"?"));
  CHECK(finds(import(line("--frobnicate 8")), unsupported, Severity::warning,
              "run.sh:1: unknown key '--frobnicate' (it is ignored); check that it changes neither "
              "work nor layout"));
}

TEST_CASE("a switch with a value, and a number that is none, are errors with their line") {
  CHECK(
      finds(import(line("--bf16 true")), inconsistent, Severity::error,
            "run.sh:1: --bf16 is 'true' (it must be a switch without a value); correct the value"));
  CHECK(finds(import(line("--context-parallel-size ${CP}")), inconsistent, Severity::error,
              "run.sh:1: --context-parallel-size is '${CP}' (it must be a whole number from 1 to "
              "1000000); correct the value"));
}

TEST_CASE("what changes the work and is not modelled is refused") {
  CHECK(finds(import(line("--hybrid-override-pattern M-M*")), unsupported, Severity::error,
              "run.sh:1: --hybrid-override-pattern is not modelled (it changes the computation or "
              "its placement); leave it out for a decoder of equal layers"));
}

}  // namespace
}  // namespace triplepoint::formats
