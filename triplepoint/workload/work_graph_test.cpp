// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/work_graph.h"

#include <doctest/doctest.h>

#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::Recompute;

double model_flops(const spec::Job& job) {
  return count_step_flops(job).model / unit::FLOP;
}
double hardware_flops(const spec::Job& job) {
  return count_step_flops(job).hardware / unit::FLOP;
}

/// Flops that all ranks really execute in one step.
double executed(const spec::Job& job, const auto& keep) {
  const WorkGraph graph = build_work_graph(job);
  double sum = 0;
  for (const auto& chunks : graph.chunk_work)
    for (const int64_t work : chunks)
      sum += test::flops(test::ops_of(graph.works.at(as_size(work))), keep);
  const int64_t ranks_per_stage = job.world_size() / graph.stages;
  return sum * as_real(ranks_per_stage) * as_real(graph.microbatches);
}

TEST_CASE("model and hardware flops of GPT are those of the literature") {
  for (const auto& model : {test::gpt(24, 2304, 24, 2048), test::gpt(96, 12288, 96, 2048)}) {
    spec::Job job = test::on_nodes(model, 12);
    job.plan.tensor_parallel_size = 1;
    job.plan.global_batch_size = 1536;
    const double batch = 1536, s = 2048, v = 51200;
    const auto l = as_real(model.num_layers), h = as_real(model.hidden_size);
    CHECK(model_flops(job) ==
          Approx(72 * batch * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))));
    CHECK(hardware_flops(job) == model_flops(job));
    job.plan.recompute = Recompute::full;
    // Narayanan et al. SC'21, equation 3.
    CHECK(hardware_flops(job) ==
          Approx(96 * batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))));
    job.plan.recompute = Recompute::selective;
    // Korthikanti et al. 2022, equation 8.
    CHECK(hardware_flops(job) ==
          Approx(72 * batch * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h)) +
                 4 * batch * s * s * l * h));
  }
}

TEST_CASE("the GEMMs of all ranks together do the model flops without attention, in every layout") {
  for (const test::Layout layout :
       {test::Layout{1, 32}, test::Layout{8, 4}, test::Layout{4, 2, 1, 2}}) {
    const spec::Job job = test::gpt3_on_32(layout);
    const double b = 128, s = 2048, h = 12288, l = 96;
    const double attention = 12 * b * s * s * l * h;
    // The LM head pads the vocabulary a little more for larger TP.
    CHECK(executed(job, test::is_gemm) == Approx(model_flops(job) - attention).epsilon(1e-3));
  }
}

TEST_CASE(
    "a MoE step counts top-k experts, so that flops are six times active parameters and tokens") {
  spec::Job job = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {1, 4, 8});
  const spec::ParameterCount count = spec::count_parameters(job.model);
  const double norms = count.final_norm + 56 * 2 * 6144.0;
  const double matrices = count.active() - count.embedding - norms;
  const double tokens = 128.0 * 4096, attention = 12 * tokens * 4096 * 6144 * 56;
  CHECK(model_flops(job) == Approx(6 * matrices * tokens + attention).epsilon(1e-6));
}

TEST_CASE("LoRA saves the weight gradients, inference the whole backward pass") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const double pretrain = model_flops(job);
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{};
  CHECK(model_flops(job) < pretrain);
  CHECK(model_flops(job) > 2.0 / 3 * pretrain);
  job.task = spec::Task::prefill;
  CHECK(model_flops(job) == Approx(pretrain / 3).epsilon(0.01));
}

TEST_CASE("a stage sends b s h elements to the next, divided by TP under sequence parallelism") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.plan.micro_batch_size = 2;
  const double whole = 2.0 * 2 * 2048 * 12288;
  CHECK(build_work_graph(job).boundary_bytes / unit::B == Approx(whole / 8));
  job.plan.sequence_parallel = false;
  CHECK(build_work_graph(job).boundary_bytes / unit::B == Approx(whole));
}

TEST_CASE("equal stages share one work: first, middle and last are the distinct ones") {
  const WorkGraph graph = build_work_graph(test::gpt3_on_32({.tensor = 1, .pipeline = 32}));
  CHECK(graph.works.size() == 3);
  CHECK(graph.step_works.size() == 3);
  for (size_t stage = 0; stage < 32; ++stage) {
    CHECK(graph.chunk_work[stage][0] == (stage == 0 ? 0 : stage == 31 ? 2 : 1));
    CHECK(graph.first_layer[stage][0] == static_cast<int64_t>(3 * stage));
  }
}

TEST_CASE("uneven and interleaved chunks cover all layers once, in order") {
  spec::Job uneven = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
  uneven.plan.layers_per_stage = {13, 11, 13, 11, 13, 11, 13, 11};
  spec::Job interleaved = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
  interleaved.plan.schedule = spec::Schedule::interleaved;
  interleaved.plan.virtual_pipeline_size = 4;
  for (const spec::Job& job : {uneven, interleaved}) {
    const WorkGraph graph = build_work_graph(job);
    std::vector<int> seen(96, 0);
    for (size_t stage = 0; stage < graph.chunk_work.size(); ++stage)
      for (size_t chunk = 0; chunk < graph.chunk_work[stage].size(); ++chunk) {
        const ChunkWork& work = graph.works.at(as_size(graph.chunk_work[stage][chunk]));
        for (int64_t i = 0; i < work.num_layers; ++i)
          ++seen.at(as_size(graph.first_layer[stage][chunk] + i));
      }
    CHECK(seen == std::vector<int>(96, 1));
  }
  const WorkGraph graph = build_work_graph(interleaved);
  CHECK(graph.first_layer[1][2] == (2 * 8 + 1) * 3);
  CHECK(graph.works.at(as_size(graph.chunk_work[0][0])).has_embedding);
  CHECK(graph.works.at(as_size(graph.chunk_work[7][3])).has_head);
}

TEST_CASE("forward runs embedding to head, backward runs head to embedding") {
  const WorkGraph graph = build_work_graph(test::gpt3_fsdp_on_32());
  const ChunkWork& work = graph.works.front();
  CHECK(work.forward.front().name == "embedding");
  CHECK(work.forward.back().name == "head");
  CHECK(work.backward_input.front().name == "head");
  CHECK(work.backward_weight.back().name == "embedding");
  const OpGroup& layer = work.backward_input.at(1);
  CHECK(layer.ops.at(0).name == "fsdp_cast");
  CHECK(layer.ops.at(1).name == "fsdp_all_gather");
  const OpGroup& weights = work.backward_weight.at(1);
  CHECK(weights.ops.back().name == "fsdp_gradient");
  CHECK(weights.ops.at(weights.ops.size() - 2).name == "fsdp_reduce_scatter");
}

TEST_CASE("every op of every graph is complete: compute moves bytes, communication has a payload") {
  spec::Job llama = test::with(test::on_nodes(test::llama3_70b(), 4), {4, 4});
  llama.plan.recompute = Recompute::full;
  spec::Job mixtral = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {2, 2, 8});
  mixtral.plan.sharding = spec::Sharding::optimizer;
  for (const spec::Job& job :
       {llama, mixtral, test::gpt3_fsdp_on_32(), test::gpt3_on_32({1, 32})}) {
    const WorkGraph graph = build_work_graph(job);
    std::vector<test::Counted> all;
    for (const ChunkWork& work : graph.works)
      for (const auto& counted : test::ops_of(work))
        all.push_back(counted);
    for (const StepWork& step : graph.step_works)
      for (const auto& counted : test::ops_of(step))
        all.push_back(counted);
    for (const auto& [op, times] : all) {
      CHECK_FALSE(op.name.empty());
      CHECK(op.kernels >= 1);
      CHECK((op.is_communication() ? op.payload : op.hbm_bytes) > Bytes());
      CHECK((op.flops > Flops()) == (test::is_gemm(op) || test::is_attention(op)));
      if (op.is_communication()) CHECK(graph.grid.shape(op.group).ranks > 1);
    }
  }
}

/// Layouts of one model on four nodes, legal or not.
std::vector<spec::Job> layouts_of(const spec::Model& model) {
  std::vector<spec::Job> jobs;
  for (const int64_t tensor : {1, 2, 8})
    for (const int64_t pipeline : {1, 2, 4})
      for (const int64_t expert : {1, 8})
        for (const int64_t context : {1, 2})
          jobs.push_back(test::with(test::on_nodes(model, 4), {tensor, pipeline, expert, context}));
  return jobs;
}

bool is_legal(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  if (job.world_size() % plan.model_parallel_size() != 0) return false;
  if (plan.expert_parallel_size > 1 && !job.model.moe) return false;
  const int64_t ranks_of_stage = job.world_size() / plan.pipeline_parallel_size;
  if (ranks_of_stage % (plan.expert_parallel_size * plan.expert_tensor_size()) != 0) return false;
  const int64_t parts = plan.pipeline_parallel_size * plan.virtual_pipeline_size;
  return job.num_microbatches() % parts == 0 && job.model.num_layers % parts == 0;
}

/// The legal ones, each also with two chunks a stage.
std::vector<spec::Job> legal_plans() {
  std::vector<spec::Job> jobs;
  for (const spec::Model& model : {test::llama3_70b(), test::mixtral_8x22b()})
    for (spec::Job& job : layouts_of(model))
      for (const int64_t chunks : {1, 2}) {
        job.plan.virtual_pipeline_size = chunks;
        job.plan.sharding = spec::Sharding::optimizer;
        const bool interleaves = job.plan.pipeline_parallel_size > 1;
        if (is_legal(job) && (chunks == 1 || interleaves)) jobs.push_back(job);
      }
  return jobs;
}

TEST_CASE("every legal plan does the same matrix work") {
  CHECK(legal_plans().size() > 60);
  for (const spec::Job& job : legal_plans()) {
    const double width = as_real(job.model.num_attention_heads * job.model.kv_channels);
    const double attention = 12.0 * as_real(job.model.sequence_length) * width *
                             as_real(job.model.num_layers * tokens_per_step(job));
    CHECK(executed(job, test::is_gemm) == Approx(model_flops(job) - attention).epsilon(2e-3));
  }
}

TEST_CASE("the shards of every legal plan hold each optimizer state once") {
  for (const spec::Job& job : legal_plans()) {
    double states = sum_of(estimate_memory(job).stages,
                           [&](const StageMemory& stage) { return stage.optimizer / unit::B; });
    const int64_t ranks_of_stage = job.world_size() / job.plan.pipeline_parallel_size;
    const double each = job.plan.optimizer.moment_bytes + job.plan.optimizer.master_bytes;
    // Norms and router are not split over TP, and each TP rank pads the vocabulary a little.
    CHECK(states * as_real(ranks_of_stage) ==
          Approx(each * spec::count_parameters(job.model).total()).epsilon(4e-3));
  }
}

TEST_CASE("tokens of a step are those of the global batch") {
  const spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const WorkGraph graph = build_work_graph(job);
  CHECK(graph.tokens_per_step == 128 * 2048);
  CHECK(graph.microbatches * job.plan.micro_batch_size * job.data_parallel_size() == 128);
}

}  // namespace
}  // namespace triplepoint::workload
