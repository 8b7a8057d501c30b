// SPDX-License-Identifier: Apache-2.0
// What a chunk keeps and moves, against what `workload` says of it.
#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/work_graph.h"

#include "trainer/model/model_testing.h"

using namespace triplepoint;
using namespace triplepoint::trainer;
using namespace triplepoint::trainer::testing;

namespace {

spec::Model wider(spec::Model model) {
  model.hidden_size = 64;
  model.ffn_hidden_size = 256;
  model.kv_channels = 16;
  model.sequence_length = 32;
  if (model.moe) model.moe->ffn_hidden_size = 128;
  return model;
}

/// Bytes that the layers of a job keep between the passes of one microbatch, per rank.
int64_t kept_by(const spec::Job& job) {
  int64_t kept = 0;
  const auto ranks = static_cast<int>(job.world_size());
  on_transports(thread_transports(ranks), {}, [&](Endpoint& endpoint) {
    const workload::RankGrid grid(job);
    const auto group = [&](spec::GroupKind kind) {
      std::vector<int> members;
      for (const int64_t member : grid.members(kind, endpoint.rank()))
        members.push_back(static_cast<int>(member));
      return endpoint.communicator(kind, members);
    };
    const auto tensor = group(spec::GroupKind::tensor), expert = group(spec::GroupKind::expert),
               cut = group(spec::GroupKind::expert_tensor);
    MemoryLedger ledger;
    const auto math = make_cpu_math(Rounding::none);
    workload::ChunkLayers layers = workload::lay_out_layers(job)[0][0];
    layers.has_embedding = layers.has_head = false;
    Chunk chunk(job, layers, {tensor.get(), expert.get(), cut.get()}, *math, ledger);
    const TestStore store(chunk);
    const auto size =
        static_cast<size_t>(workload::share_of_rank(job).sharded_tokens * job.model.hidden_size);
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
  CHECK(static_cast<double>(kept_by(job)) == doctest::Approx(predicted).epsilon(0.1));
}

}  // namespace

TEST_CASE("what is kept is what the memory model counts") {
  for (const spec::Model& model : {wider(tiny_gpt()), wider(tiny_llama())})
    for (const int64_t tensor : {1, 2})
      for (const auto recompute :
           {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full})
        for (const bool flash : {true, false}) {
          spec::Job job = job_of(model, tensor);
          job.plan.tensor_parallel_size = tensor;
          job.plan.sequence_parallel = tensor > 1;
          job.plan.recompute = recompute;
          job.stack.attention_kernels =
              flash ? spec::AttentionKernels::native : spec::AttentionKernels::unfused;
          check_kept(job);
        }
}

TEST_CASE("adapters keep what they need of the base") {
  for (const int64_t tensor : {1, 2}) {
    spec::Job job = job_of(wider(tiny_llama()), tensor);
    job.plan.tensor_parallel_size = tensor;
    job.plan.sequence_parallel = tensor > 1;
    job.task = spec::Task::lora;
    job.plan.lora = spec::Lora{.rank = 4, .targets = {"attention_qkv"}};
    check_kept(job);
  }
}
