// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/text.h"

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/work_graph.h"

#include "trainer/model/model_testing.h"

using namespace triplepoint;
using namespace triplepoint::trainer;
using namespace triplepoint::trainer::testing;

namespace {

struct Split {
  int64_t tensor = 1, data = 1;
  bool sequence_parallel = false;
};

spec::Job split_job(spec::Model model, Split split) {
  spec::Job job = job_of(std::move(model), split.tensor * split.data);
  job.plan.tensor_parallel_size = split.tensor;
  job.plan.sequence_parallel = split.sequence_parallel;
  return job;
}

spec::Model with_groups(spec::Model model, int64_t groups) {
  model.num_query_groups = groups;
  return model;
}

}  // namespace

TEST_CASE("tensor parallel ranks compute what one rank computes") {
  for (const spec::Model& model : {tiny_gpt(), with_groups(tiny_llama(), 4)})
    for (const int64_t tensor : {2, 4})
      for (const bool sharded : {false, true})
        for (const Backward backward : {Backward::whole, Backward::split}) {
          spec::Job job = split_job(model, {.tensor = tensor, .sequence_parallel = sharded});
          check_against_reference(job, backward);
        }
}

TEST_CASE("recompute works under tensor parallelism") {
  for (const auto recompute : {spec::Recompute::selective, spec::Recompute::full})
    for (const bool fused : {false, true}) {
      spec::Job job = split_job(tiny_llama(), {.tensor = 2, .sequence_parallel = true});
      job.plan.recompute = recompute;
      job.stack.fused_activations = fused;  // the loss in one all-reduce or two
      check_against_reference(job);
    }
}

// What a chunk keeps and moves, against what `workload` says of it.

using namespace triplepoint;
using namespace triplepoint::trainer;
using namespace triplepoint::trainer::testing;

namespace {

spec::Model wider(spec::Model model) {
  model.hidden_size = 64;
  model.ffn_hidden_size = 256;
  model.kv_channels = 16;
  model.sequence_length = 32;
  return model;
}

/// Bytes that the layers of a job keep between the passes of one microbatch, per rank.
int64_t stored_by(const spec::Job& job) {
  int64_t kept = 0;
  const auto ranks = static_cast<int>(job.world_size());
  on_transports(thread_transports(ranks), {}, [&](Endpoint& endpoint) {
    const workload::RankGrid grid(job);
    const auto tensor = group_of(grid, endpoint, spec::GroupKind::tensor);
    MemoryLedger ledger;
    const auto math = make_cpu_math();
    workload::ChunkLayers layers = workload::lay_out_layers(job)[0][0];
    layers.has_embedding = layers.has_head = false;
    Chunk chunk(job, layers, *tensor, *math, ledger);
    const TestStore store(chunk);
    const auto size = as_size(workload::share_of_rank(job).sharded_tokens * job.model.hidden_size);
    std::vector<float> x(size, 1.0F), y(size);
    std::iota(x.begin(), x.end(), 0.0F);
    chunk.forward({.microbatch = 0}, x, y);
    if (endpoint.rank() == 0) kept = ledger.now(MemoryTerm::activations);
  });
  return kept;
}

void check_kept(const spec::Job& job) {
  const workload::LayerContext context{job, workload::share_of_rank(job)};
  workload::ChunkLayers layers = workload::lay_out_layers(job)[0][0];
  layers.has_embedding = layers.has_head = false;
  const double predicted = workload::chunk_activation_bytes(context, layers);
  CAPTURE(job.plan.sequence_parallel);
  CHECK(as_real(stored_by(job)) == doctest::Approx(predicted).epsilon(0.1));
}

}  // namespace

TEST_CASE("what is kept is what the memory model counts") {
  for (const spec::Model& model : {wider(tiny_gpt()), wider(tiny_llama())})
    for (const int64_t tensor : {1, 2})
      for (const auto recompute :
           {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full}) {
        spec::Job job = job_of(model, tensor);
        job.plan.tensor_parallel_size = tensor;
        job.plan.sequence_parallel = tensor > 1;
        job.plan.recompute = recompute;
        check_kept(job);
      }
}

using namespace triplepoint;
using namespace triplepoint::trainer;
using namespace triplepoint::trainer::testing;

namespace {

std::vector<spec::Model> models() {
  spec::Model tied = tiny_llama();
  tied.tied_embeddings = true;
  tied.activation = spec::Activation::squared_relu;
  return {tiny_gpt(), tiny_llama(), tied};
}

}  // namespace

TEST_CASE("loss and every gradient equal the plain reference's") {
  for (const spec::Model& model : models())
    check_against_reference(job_of(model));
}

TEST_CASE("the reference's own gradients are slopes of its loss") {
  const spec::Job job = job_of(tiny_llama());
  const Outcome at = reference_outcome(job);
  const TestBatch batch = test_batch(job.model, 0, 4);
  for (const std::string name :
       {"layers.1.attention.qkv.weight", "layers.0.mlp.down.weight", "embedding.weight"}) {
    const auto loss = [&](double change) {
      ReferenceInput input{job.model, 4, batch.inputs, batch.targets};
      input.value = [&](const std::string& n, int64_t row, int64_t column) {
        return test_value(n, row, column) + (n == name && row == 1 && column == 2 ? change : 0);
      };
      return run_reference(input).loss;
    };
    const auto columns = at.gradients.at(name).size() / (name == "embedding.weight" ? 21 : 1);
    const size_t width = name == "embedding.weight" ? columns : contains(name, "down") ? 24 : 16;
    CHECK(at.gradients.at(name)[width + 2] ==
          doctest::Approx((loss(1e-5) - loss(-1e-5)) / 2e-5).epsilon(1e-5).scale(0.01));
  }
}

TEST_CASE("recomputing layers changes nothing") {
  for (const spec::Model& model : models())
    for (const int64_t layers : {1, 2})
      for (const auto recompute :
           {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full}) {
        spec::Job job = job_of(model);
        job.plan.recompute = recompute;
        if (recompute == spec::Recompute::full) job.plan.recompute_layers = layers;
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
