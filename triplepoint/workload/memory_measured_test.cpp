// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/test_jobs.h"

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

spec::Model llama3_405b() {
  spec::Model model = test::llama3_70b();
  model.hidden_size = 16384;
  model.ffn_hidden_size = 53248;
  model.num_attention_heads = 128;
  return model;
}

std::vector<MeasuredPeak> measured_peaks() {
  const spec::Model small = test::llama3_70b(), large = llama3_405b();
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
  return verdict.stages[static_cast<size_t>(verdict.worst_stage)].total() / unit::GiB;
}

TEST_CASE("measured peaks of Megatron-LM are met within 1 %, and within 0.5 % on the average") {
  double sum = 0;
  for (const MeasuredPeak& row : measured_peaks()) {
    const double error = estimated_gib(row) / row.gib - 1;
    CHECK(std::abs(error) < 0.01);
    sum += std::abs(error);
  }
  CHECK(sum / static_cast<double>(measured_peaks().size()) < 0.005);
}

}  // namespace
}  // namespace triplepoint::workload
