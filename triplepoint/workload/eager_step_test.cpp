// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/eager_step.h"

#include <cmath>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/workload/caching_allocator.h"
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

TEST_CASE("what cannot be simulated is estimated as before") {
  spec::Job job = nanotron_job({8, 1, 4, true});
  job.plan.recompute = spec::Recompute::full;
  const double eager = reserved_gib(job);
  job.stack.eager_allocation = false;
  CHECK(reserved_gib(job) == doctest::Approx(eager));
}

}  // namespace

}  // namespace triplepoint::workload
