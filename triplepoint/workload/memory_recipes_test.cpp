// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/memory.h"

/// Public recipes that run on the machines named: what must fit fits, and what cannot does not.
/// Sources: torchtitan, benchmarks and models/*/train_configs; NVIDIA's dgxc-benchmarking
/// (Llama 3.1 405B, 512 H100); llama-recipes (LoRA of 70B on one node).

namespace triplepoint::workload {
namespace {

/// A layer-cut Llama on one node of B200s under Megatron-LM 0.14, and the allocator's measured
/// peak. Source: MooreThreads/SimuMax, docs/b200/b200_release_v1.2_summary.md, column "real".
struct MeasuredPeak {
  spec::Model model;
  int64_t layers, sequence;
  test::Layout layout;
  double gib;
};

spec::Model wide_llama3() {
  spec::Model model = test::llama3_70b();
  model.hidden_size = 16384;
  model.ffn_hidden_size = 53248;
  model.num_attention_heads = 128;
  return model;
}

std::vector<MeasuredPeak> measured_peaks() {
  const spec::Model small = test::llama3_70b(), large = wide_llama3();
  return {{small, 12, 4096, {1, 2}, 66.55},          {small, 12, 4096, {2, 1}, 60.68},
          {small, 12, 4096, {4, 1}, 39.07},          {small, 12, 4096, {8, 1}, 28.29},
          {small, 12, 32768, {2, 1, 1, 4}, 68.43},   {small, 12, 32768, {1, 1, 1, 8}, 104.51},
          {small, 12, 131072, {2, 1, 1, 4}, 112.67}, {small, 12, 131072, {1, 1, 1, 8}, 147.99},
          {large, 4, 4096, {1, 2}, 87.08},           {large, 4, 4096, {2, 1}, 81.59},
          {large, 4, 4096, {4, 1}, 52.89},           {large, 4, 4096, {8, 1}, 38.57},
          {large, 4, 32768, {2, 1, 1, 4}, 87.03},    {large, 4, 32768, {1, 1, 1, 8}, 139.22},
          {large, 4, 131072, {2, 1, 1, 4}, 118.13}};
}

/// What the allocator holds: without context, NCCL and fragmentation.
double estimated_gib(const MeasuredPeak& row) {
  spec::Job job = test::with(test::on_nodes(row.model, 1), row.layout);
  job.model.num_layers = row.layers;
  job.model.sequence_length = row.sequence;
  job.plan.sharding = spec::Sharding::optimizer;
  job.plan.optimizer.master_bytes = 4;
  job.plan.global_batch_size = 4 * job.data_parallel_size();
  job.stack.framework_reserve = Bytes();
  job.stack.memory_fragmentation = 1;
  const MemoryVerdict verdict = estimate_memory(job);
  return verdict.stages[as_size(verdict.worst_stage)].total() / unit::GiB;
}

TEST_CASE("measured peaks of Megatron-LM are met within 1 %, and within 0.5 % on the average") {
  double sum = 0;
  for (const MeasuredPeak& row : measured_peaks()) {
    const double error = estimated_gib(row) / row.gib - 1;
    CHECK(std::abs(error) < 0.01);
    sum += std::abs(error);
  }
  CHECK(sum / as_real(measured_peaks().size()) < 0.005);
}

using spec::Recompute;
using spec::Sharding;

constexpr double a100 = 81920, h100 = 81559, h200 = 143771, b200 = 183359, mi300x = 196592;  // MiB

spec::Model llama3_8b() {
  spec::Model model = test::llama3_70b();
  model.num_layers = 32;
  model.hidden_size = 4096;
  model.ffn_hidden_size = 14336;
  model.num_attention_heads = 32;
  return model;
}

spec::Model llama3_405b() {
  spec::Model model = test::llama3_70b();
  model.num_layers = 126;
  model.hidden_size = 16384;
  model.ffn_hidden_size = 53248;
  model.num_attention_heads = 128;
  return model;
}

spec::Model qwen3_30b_a3b() {
  spec::Model model = test::llama3_70b();
  model.num_layers = 48;
  model.hidden_size = 2048;
  model.num_attention_heads = 32;
  model.num_query_groups = 4;
  model.kv_channels = 128;
  model.vocabulary_size = 151936;
  model.sequence_length = 4096;
  model.moe = spec::MixtureOfExperts{.num_experts = 128, .router_topk = 8, .ffn_hidden_size = 768};
  return model;
}

/// torchtitan: floats of weights, gradients and moments in shards; the loss compiled.
spec::Job fsdp(const spec::Model& model, int64_t gpus, double mebibytes, int64_t micro = 1) {
  spec::Job job = test::on_nodes(model, gpus / 8);
  job.cluster.gpu.memory = mebibytes * unit::MiB;
  job.stack.framework_reserve = 3 * unit::GB;
  job.stack.memory_fragmentation = 1;
  job.plan.sharding = Sharding::parameters;
  job.plan.recompute = Recompute::full;
  job.plan.micro_batch_size = micro;
  job.plan.global_batch_size = micro * gpus;
  return job;
}

double needed(const spec::Job& job) {
  const MemoryVerdict verdict = estimate_memory(job);
  return verdict.stages[as_size(verdict.worst_stage)].total() / unit::GB;
}

bool fits(const spec::Job& job) {
  return estimate_memory(job).fits();
}

TEST_CASE("Llama3-70B under FSDP fits 64 GPUs of 80 GB, mostly by its states and checkpoints") {
  CHECK(fits(fsdp(test::llama3_70b(), 64, a100)));
  CHECK(fits(fsdp(test::llama3_70b(), 64, h100)));
  const StageMemory memory = estimate_memory(fsdp(test::llama3_70b(), 64, h100)).stages[0];
  const double states = (memory.weights + memory.gradients + memory.optimizer) / unit::GB;
  CHECK(states == doctest::Approx(70.6 * 16 / 64).epsilon(0.01));
  const double checkpoints = 80 * 8192. * 8192 * 2 / 1e9;
  CHECK(memory.activations / unit::GB > checkpoints);
  CHECK(memory.activations / unit::GB < 1.3 * checkpoints);  // and one layer that is recomputed
}

TEST_CASE("Llama3-70B under FSDP fits 8 GPUs whose memory holds its 141 GB of states") {
  CHECK_FALSE(fits(fsdp(test::llama3_70b(), 8, h200)));
  CHECK(fits(fsdp(test::llama3_70b(), 8, b200)));
  CHECK(fits(fsdp(test::llama3_70b(), 8, mi300x, 2)));
  CHECK(fits(fsdp(test::llama3_70b(), 16, h200, 2)));
}

TEST_CASE("Llama3-8B under FSDP fits 8 GPUs of 80 GB, checkpointed by operator") {
  for (const double memory : {a100, h100}) {
    spec::Job job = fsdp(llama3_8b(), 8, memory);
    job.plan.recompute = Recompute::selective;
    job.plan.recompute_modules = {spec::RecomputeModule::alternate_gemms};
    CHECK(fits(job));
    job.plan.micro_batch_size = 8;
    job.plan.global_batch_size = 64;
    CHECK_FALSE(fits(job));
  }
}

TEST_CASE("Qwen3-30B-A3B under FSDP fits 8 H100, with experts on one rank or on all") {
  spec::Job job = fsdp(qwen3_30b_a3b(), 8, h100);
  CHECK(fits(job));
  const double gathered = needed(job);
  job.plan.expert_parallel_size = 8;
  CHECK(fits(job));
  CHECK(needed(job) < gathered);  // no layer's experts are gathered
  job.cluster.gpu.memory = h200 * unit::MiB;
  job.plan.micro_batch_size = 4;
  job.plan.global_batch_size = 32;
  CHECK(fits(job));
}

TEST_CASE("LoRA of Llama3-70B fits one node of H100, training all of its weights does not") {
  spec::Job job = fsdp(test::llama3_70b(), 8, h100);
  CHECK_FALSE(fits(job));
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{.rank = 16};
  CHECK(fits(job));
}

TEST_CASE("Mixtral-8x7B under FSDP fits 16 H100") {
  spec::Model model = test::mixtral_8x22b();
  model.num_layers = 32;
  model.hidden_size = 4096;
  model.ffn_hidden_size = 14336;
  model.num_attention_heads = 32;
  model.moe->ffn_hidden_size = 14336;
  CHECK(fits(fsdp(model, 16, h100)));
}

/// NVIDIA's layout of Llama 3.1 405B: 126 layers and two ends in 64 chunks of two.
spec::Job llama3_405b_on_512() {
  spec::Job job = test::with(test::on_nodes(llama3_405b(), 64), {8, 8, 1, 2});
  job.cluster.gpu.memory = h100 * unit::MiB;
  job.plan.sharding = Sharding::optimizer;
  job.plan.schedule = spec::Schedule::interleaved;
  job.plan.virtual_pipeline_size = 8;
  job.plan.layers_per_stage.assign(64, 2);
  job.plan.layers_per_stage.front() = job.plan.layers_per_stage.back() = 1;
  job.plan.global_batch_size = 256;
  return job;
}

TEST_CASE("Llama3.1-405B fits 512 H100 without recompute where gradients have 16 bits") {
  spec::Job job = llama3_405b_on_512();
  job.plan.optimizer = {.name = "distributed_fused_adam_bf16",
                        .weight_bytes = 2,
                        .gradient_bytes = 2,
                        .moment_bytes = 8,
                        .master_bytes = 2,
                        .gradient_sync_bytes = 2};
  CHECK(fits(job));
  job.plan.optimizer.gradient_bytes = 4;
  CHECK_FALSE(fits(job));
}

}  // namespace

}  // namespace triplepoint::workload
