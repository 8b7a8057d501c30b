// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/eager_step.h"

#include <cmath>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/workload/caching_allocator.h"
#include "triplepoint/workload/host_lead.h"
#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::workload {
namespace {

constexpr int64_t MiB = int64_t{1} << 20;

double mib(double count) {
  return count * static_cast<double>(MiB);
}

TEST_CASE("segments are 20 MiB for tensors below 10 MiB, and whole 2 MiB from there on") {
  CachingAllocator memory;
  memory.take(mib(3));
  CHECK(memory.reserved() == 20 * MiB);
  memory.take(mib(17.5));
  CHECK(memory.reserved() == 38 * MiB);
  memory.take(mib(18));
  CHECK(memory.reserved() == 56 * MiB);
}

TEST_CASE("the rest of a segment serves the next tensor") {
  CachingAllocator memory;
  memory.take(mib(3));
  memory.take(mib(9));
  memory.take(mib(8));
  CHECK(memory.reserved() == 20 * MiB);
  CHECK(memory.allocated() == 20 * MiB);
}

TEST_CASE("a tensor takes the smallest free block that holds it") {
  CachingAllocator memory;
  const auto large = memory.take(mib(64)), small = memory.take(mib(32));
  memory.drop(large);
  memory.drop(small);
  memory.take(mib(30));
  memory.take(mib(64));
  CHECK(memory.reserved() == 96 * MiB);
}

TEST_CASE("free neighbours of one segment join, those of two do not") {
  CachingAllocator memory;
  const auto whole = memory.take(mib(64));
  memory.drop(whole);
  const auto one = memory.take(mib(32)), other = memory.take(mib(32));
  memory.drop(one);
  memory.drop(other);
  memory.drop(memory.take(mib(64)));
  CHECK(memory.reserved() == 64 * MiB);
  const auto apart = memory.take(mib(64)), further = memory.take(mib(64));
  memory.drop(apart);
  memory.drop(further);
  memory.take(mib(128));
  CHECK(memory.reserved() == 256 * MiB);
}

TEST_CASE("small tensors share segments of 2 MiB") {
  CachingAllocator memory;
  std::vector<CachingAllocator::Tensor> tensors;
  for (int i = 0; i < 5; ++i)
    tensors.push_back(memory.take(mib(1)));
  CHECK(memory.reserved() == 6 * MiB);
  for (const auto tensor : tensors)
    memory.drop(tensor);
  CHECK(memory.allocated() == 0);
  CHECK(memory.reserved() == 6 * MiB);
}

TEST_CASE("everything that was taken comes back when it is dropped, and serves again") {
  CachingAllocator memory;
  for (int round = 0; round < 3; ++round) {
    std::vector<CachingAllocator::Tensor> tensors;
    for (int i = 1; i <= 20; ++i)
      tensors.push_back(memory.take(mib(1.5 * i)));
    for (std::size_t i = 0; i < tensors.size(); i += 2)
      memory.drop(tensors[i]);
    for (std::size_t i = 1; i < tensors.size(); i += 2)
      memory.drop(tensors[i]);
    CHECK(memory.allocated() == 0);
  }
  const int64_t reserved = memory.reserved();
  memory.take(mib(20));
  CHECK(memory.reserved() == reserved);
  CHECK(memory.peak() >= 315 * MiB);
}

TEST_CASE("where the driver has no more, segments without a tensor go back to it") {
  CachingAllocator memory(100 * MiB);
  const auto kept = memory.take(mib(30)), free = memory.take(mib(40)), cut = memory.take(mib(20));
  memory.drop(free);
  memory.drop(cut);
  memory.take(mib(12));
  CHECK_FALSE(memory.is_exhausted_by(mib(39)));  // a free block serves it
  REQUIRE(memory.is_exhausted_by(mib(44)));
  memory.take(mib(44));
  CHECK(memory.reserved() == 94 * MiB);  // 30, the cut segment and 44
  CHECK(memory.peak_reserved() == 94 * MiB);
  memory.drop(kept);
  memory.take(mib(200));
  CHECK(memory.reserved() == 264 * MiB);  // more than there is
}

/// nanotron's 1.34B model: tied embeddings, as many keys as queries.
spec::Model nanotron_1b() {
  spec::Model model = test::llama3_70b();
  model.name = "nanotron 1.34B";
  model.num_layers = 16;
  model.hidden_size = 2048;
  model.ffn_hidden_size = 8192;
  model.num_attention_heads = 32;
  model.num_query_groups = 32;
  model.kv_channels = 64;
  model.sequence_length = 4096;
  model.vocabulary_size = 131072;
  model.tied_embeddings = true;
  return model;
}

struct Run {
  int64_t data, microbatch, accumulate;
  bool zero;
};

spec::Job nanotron_job(const Run& run) {
  spec::Job job = test::on_nodes(nanotron_1b(), std::max<int64_t>(1, run.data / 8));
  job.cluster.gpus_per_node = std::min<int64_t>(8, run.data);
  job.plan.sharding = run.zero ? spec::Sharding::optimizer : spec::Sharding::none;
  job.plan.micro_batch_size = run.microbatch;
  job.plan.global_batch_size = run.microbatch * run.data * run.accumulate;
  job.stack.eager_allocation = true;
  job.stack.fused_activations = false;
  job.stack.framework_reserve = Bytes();
  return job;
}

double reserved_gib(const spec::Job& job) {
  return estimate_memory(job).stages.front().reserved / unit::GiB;
}

/// Reserved memory of eight public runs on H100, which nothing was fitted to: Hugging Face,
/// Ultra-Scale sweep, 1.34B without tensor parallelism.
TEST_CASE("what an eager step reserves is met within 1 % where no transfer is late") {
  struct Measured {
    Run run;
    double gib;
  };
  for (const Measured& row :
       {Measured{{256, 1, 1, false}, 36.65}, Measured{{8, 1, 32, false}, 36.67},
        Measured{{128, 2, 1, false}, 48.55}, Measured{{8, 2, 16, false}, 50.18},
        Measured{{256, 1, 1, true}, 21.67}, Measured{{8, 1, 32, true}, 24.24},
        Measured{{128, 2, 1, true}, 30.80}, Measured{{16, 2, 8, true}, 35.03}}) {
    CAPTURE(row.gib);
    CHECK(std::abs(reserved_gib(nanotron_job(row.run)) / row.gib - 1) < 0.01);
  }
}

TEST_CASE("while the optimizer steps, ZeRO gathers two copies of the parameters in 16 bits") {
  const spec::Job job = nanotron_job({8, 1, 32, true});
  const StageMemory stage = estimate_memory(job).stages.front();
  const Bytes standing = stage.weights + stage.gradients + stage.optimizer;
  const Bytes flat = (2 + 1. / 8) * stage.weights, workspaces = 64 * unit::MiB;
  CHECK(stage.step / unit::GiB ==
        doctest::Approx((standing + flat + workspaces) / unit::GiB).epsilon(0.001));
}

TEST_CASE("a job lives on less than it would take, as long as its tensors find room") {
  spec::Job job = nanotron_job({16, 2, 8, true});
  job.stack.memory_fragmentation = 1;
  const auto reserved_within = [&](double gib) {
    job.cluster.gpu.memory = gib * unit::GiB;
    return reserved_gib(job);
  };
  const double taken = reserved_gib(job);
  const StageMemory stage = estimate_memory(job).stages.front();
  const double needed = (stage.total() - stage.reserve) / unit::GiB;
  REQUIRE(needed < 0.95 * taken);
  CHECK(reserved_within(taken) == doctest::Approx(taken));
  CHECK(reserved_within(0.97 * taken) < taken);
  CHECK(reserved_within(0.99 * needed) > 0.99 * needed);
}

TEST_CASE("a simulated stage's memory is the sum of its parts, none of them negative") {
  for (const int64_t tensor : {1, 4}) {
    spec::Job job = nanotron_job({8, 2, 8, true});
    job.plan.tensor_parallel_size = tensor;
    job.plan.pipeline_parallel_size = 2;
    job.plan.sequence_parallel = tensor > 1;
    for (const StageMemory& stage : estimate_memory(job).stages) {
      CHECK(stage.weights > Bytes());
      CHECK(stage.activations > Bytes());
      CHECK(stage.logits >= Bytes());
      CHECK(stage.reserve >= Bytes());
    }
  }
}

TEST_CASE("the beginning of a program holds no more than the whole of it") {
  spec::Job job = nanotron_job({2, 2, 8, false});
  job.plan.pipeline_parallel_size = 4;
  job.cluster.gpus_per_node = 8;
  const LayerContext context{job, share_of_rank(job)};
  const auto layout = lay_out_layers(job);
  const auto programs = build_programs(job);
  for (std::size_t stage = 0; stage < layout.size(); ++stage) {
    StageProgram begin;
    for (const Action& action : programs[stage]) {
      if (action.kind != ActionKind::forward) break;
      begin.push_back(action);
    }
    const Bytes part = simulate_eager_step(context, layout[stage], begin).reserved;
    CHECK(part <= simulate_eager_step(context, layout[stage], programs[stage]).reserved);
  }
}

TEST_CASE("a stage that holds one microbatch more than its schedule asks for needs more") {
  spec::Job job = nanotron_job({1, 4, 16, false});
  job.cluster.gpus_per_node = 8;
  job.plan.tensor_parallel_size = 2;
  job.plan.pipeline_parallel_size = 4;
  job.plan.sequence_parallel = true;
  const double as_scheduled = reserved_gib(job);
  job.stack.extra_in_flight = 1;
  CHECK(reserved_gib(job) > as_scheduled);
}

TEST_CASE("the host is ahead where a pass takes the GPU longer, until it waits") {
  HostLead paced_by_host, paced_by_gpu;
  for (int i = 0; i < 5; ++i) {
    paced_by_host.launch({.host = 3 * unit::ms, .gpu = 1 * unit::ms});
    paced_by_gpu.launch({.host = 1 * unit::ms, .gpu = 3 * unit::ms});
  }
  CHECK(paced_by_host.end() / unit::ms == doctest::Approx(16));
  CHECK(paced_by_gpu.end() / unit::ms == doctest::Approx(16));
  CHECK_FALSE(paced_by_gpu.has_completed(7 * unit::ms));
  CHECK(paced_by_host.has_completed(13 * unit::ms));  // of the pass before
  paced_by_gpu.wait_until(7 * unit::ms);
  CHECK(paced_by_gpu.has_completed(7 * unit::ms));
  paced_by_gpu.stall_gpu();
  CHECK_FALSE(paced_by_gpu.has_completed(paced_by_gpu.end()));
  paced_by_gpu.synchronize();
  CHECK(paced_by_gpu.has_completed(paced_by_gpu.end()));
}

struct TensorRun {
  Run run;
  int64_t tensor;
  std::vector<int64_t> stages;  // layers
  double gib;
};

/// On the stack and the machines of the Ultra-Scale sweep after its repair of pipelines.
spec::Job repaired(const TensorRun& row) {
  const auto stages = static_cast<int64_t>(row.stages.size());
  spec::Job job = nanotron_job(row.run);
  job.cluster.gpus_per_node = 8;
  job.cluster.num_nodes = row.run.data * row.tensor * stages / 8;
  job.cluster.gpu.peak_bf16 = 989.4 * unit::TFLOP / unit::s;
  job.cluster.gpu.hbm_bandwidth = 3352 * unit::GB / unit::s;
  job.cluster.scale_up.bandwidth = 450 * unit::GB / unit::s;
  job.cluster.scale_out.nics_per_node = 32;
  job.cluster.scale_out.nic_bandwidth = 12.5 * unit::GB / unit::s;
  job.stack.layer_forward_host = job.stack.layer_backward_host = 1.97 * unit::ms;
  job.stack.tensor_collective_host = 210 * unit::us;
  job.plan.tensor_parallel_size = row.tensor;
  job.plan.pipeline_parallel_size = stages;
  if (stages > 1) job.plan.layers_per_stage = row.stages;
  job.plan.sequence_parallel = true;
  return job;
}

/// Public runs on H100 (Hugging Face, Ultra-Scale sweep, 1.34B). No number is fitted to their
/// memory; that the first of four stages and more is held in the first step was seen in such runs.
/// The host paces all of them: with 48 inputs late at all times they are 9 to 157 % too high.
TEST_CASE("inputs of transfers stay as long as the host is ahead of the GPU") {
  for (const TensorRun& row : {TensorRun{{2, 64, 2, true}, 32, {16}, 26.29},
                               TensorRun{{1, 8, 32, false}, 8, {10, 6}, 10.84},
                               TensorRun{{1, 32, 8, false}, 16, {10, 6}, 19.37},
                               TensorRun{{4, 16, 4, true}, 8, {5, 5, 5, 1}, 23.34},
                               TensorRun{{1, 32, 8, false}, 16, {5, 5, 5, 1}, 28.95},
                               TensorRun{{1, 32, 8, false}, 16, {3, 2, 3, 2, 3, 2, 1, 0}, 42.76}}) {
    CAPTURE(row.gib);
    CHECK(std::abs(reserved_gib(repaired(row)) / row.gib - 1) < 0.06);
  }
}

TEST_CASE("a tensor group inside of an NVLink domain does not know its nodes") {
  spec::Job one_node = repaired({{1, 8, 32, false}, 8, {10, 6}, 0});
  one_node.stack.tensor_collective_host = Seconds();  // the GPU paces the step
  spec::Job trays = one_node;
  trays.cluster.gpus_per_node = 4;
  trays.cluster.num_nodes *= 2;
  const double by_nics = reserved_gib(trays);
  trays.cluster.scale_up.domain_size = 72;
  CHECK(reserved_gib(trays) == doctest::Approx(reserved_gib(one_node)));
  CHECK(by_nics >= reserved_gib(one_node));
}

TEST_CASE("a faster host holds more inputs of transfers") {
  const TensorRun row{{1, 32, 8, false}, 8, {10, 6}, 0};
  spec::Job job = repaired(row);
  job.stack.tensor_collective_host = 2 * unit::ms;
  const double paced_by_host = reserved_gib(job);
  job.stack.tensor_collective_host = Seconds();
  CHECK(reserved_gib(job) > paced_by_host + 2);
}

TEST_CASE("what cannot be simulated is estimated as before") {
  spec::Job job = nanotron_job({8, 1, 4, true});
  job.plan.recompute = spec::Recompute::full;
  const double eager = reserved_gib(job);
  job.stack.eager_allocation = false;
  CHECK(reserved_gib(job) == doctest::Approx(eager));
}

}  // namespace

}  // namespace triplepoint::workload
