// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/workload/jobs_testing.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::Collective;
using spec::GroupKind;
using spec::Sharding;

/// A GPT on 32 GPUs, data parallel only; gradients travel in the weights' two bytes.
spec::Job data_parallel(Sharding sharding) {
  spec::Job job = test::on_nodes(test::gpt(24, 2048, 16, 2048), 4);
  job.plan.sharding = sharding;
  job.plan.optimizer.gradient_sync_bytes = 2;
  return job;
}

/// Bytes one rank sends in a ring, over a step, by the whole data group.
double ring_bytes(const WorkGraph& graph) {
  std::vector<test::Counted> ops = test::ops_of(graph.step_works.front());
  for (test::Counted counted : test::ops_of(graph.works.front())) {
    counted.times *= as_real(graph.microbatches);
    ops.push_back(counted);
  }
  const double n = as_real(graph.grid.shape(GroupKind::data).ranks);
  const auto payload = [&](Collective kind) {
    return test::traffic(ops, kind, GroupKind::data).payload;
  };
  return (2 * payload(Collective::all_reduce) + payload(Collective::reduce_scatter) +
          payload(Collective::all_gather)) *
         (n - 1) / n;
}

TEST_CASE("ZeRO's volumes: 2 psi unsharded, 2 psi for stages 1 and 2, 3 psi for stage 3") {
  for (const Sharding sharding :
       {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    spec::Job job = data_parallel(sharding);
    job.plan.global_batch_size = 32;  // one microbatch
    const WorkGraph graph = build_work_graph(job);
    const double psi = 2 * graph.parameters * 31 / 32;
    // The LM head and the embedding stay gathered between forward and backward.
    const double ends = 2 * (51200.0 + 51200 + 2048 + 2) * 2048 * 31 / 32;
    const double volume = sharding == Sharding::parameters ? 3 * psi - ends : 2 * psi;
    CHECK(ring_bytes(graph) == Approx(volume).epsilon(1e-6));
  }
}

TEST_CASE("FSDP gathers every layer twice and scatters once per microbatch") {
  spec::Job job = test::gpt3_fsdp_on_32();
  const auto calls = [&](Collective kind) {
    double count = 0;
    for (const auto& [op, times] : test::ops_of_layers(job))
      if (op.is_communication() && op.collective == kind && op.group == GroupKind::data)
        count += times;
    return count;
  };
  const double ends = 2;  // embedding and head are gathered once
  CHECK(calls(Collective::all_gather) == 2 * 96 + ends);
  CHECK(calls(Collective::reduce_scatter) == 96 + ends);
  job.plan.recompute = spec::Recompute::full;
  CHECK(calls(Collective::all_gather) == 3 * 96 + ends);
  job.plan.reshard_after_forward = false;
  CHECK(calls(Collective::all_gather) == 96 + ends);
}

TEST_CASE(
    "a layer's gather carries its parameters in bf16 and its reduction what the optimizer says") {
  const spec::Job job = test::gpt3_fsdp_on_32();
  const double layer = spec::count_layer_parameters(job.model, 0).without_experts() / 8;
  const WorkGraph graph = build_work_graph(job);
  for (const OpGroup& group : graph.works.front().forward)
    if (group.is_layer) CHECK(group.ops.at(1).payload / unit::B == Approx(2 * layer).epsilon(1e-3));
}

TEST_CASE("copies around FSDP's collectives, in bytes per parameter") {
  using spec::ShardedTensors;
  spec::Job job = test::gpt3_fsdp_on_32();
  job.plan.optimizer.gradient_sync_bytes = 4;
  const double parameters = build_work_graph(job).parameters / 8;  // of a rank
  const auto bytes = [&](ShardedTensors tensors, std::string_view name) {
    job.stack.sharded_tensors = tensors;
    double sum = 0;
    for (const auto& [op, times] : test::ops_of_layers(job))
      if (op.name == name) sum += times * (op.hbm_bytes / unit::B);
    return Approx(sum / parameters).epsilon(0.01);  // embedding and head are gathered once
  };
  CHECK(bytes(ShardedTensors::in_place, "fsdp_copy_out") == 0);
  CHECK(bytes(ShardedTensors::flat, "fsdp_copy_out") == 0);
  CHECK(bytes(ShardedTensors::per_parameter, "fsdp_copy_out") == 2 * 4);
  const double shard = (2 + 2 * 4) / 4.0;  // added to the shard of four data ranks
  CHECK(bytes(ShardedTensors::in_place, "fsdp_gradient") == 4 + shard);
  CHECK(bytes(ShardedTensors::flat, "fsdp_gradient") == 4 + 6 + 8 + shard);
  CHECK(bytes(ShardedTensors::per_parameter, "fsdp_gradient") == 6 + shard);
}

TEST_CASE("separate parameters of 8-bit layers are gathered in 8 bits, cast as shards") {
  spec::Job job = test::gpt3_fsdp_on_32();
  job.plan.precision = spec::Precision::fp8;
  job.stack.fused_casts = false;
  const auto payload_of_layer = [&] {
    return build_work_graph(job).works.front().forward.at(1).ops.at(1).payload;
  };
  const Bytes in_16_bits = payload_of_layer();
  job.stack.sharded_tensors = spec::ShardedTensors::per_parameter;
  CHECK(payload_of_layer() / in_16_bits == Approx(0.5));
  job.stack.rowwise_scales = true;  // whose scales need whole rows of both layouts
  CHECK(payload_of_layer() / in_16_bits == Approx(1));
}

TEST_CASE("ZeRO-2 that accumulates shards reduces every microbatch") {
  spec::Job job = data_parallel(Sharding::gradients);
  const double once = ring_bytes(build_work_graph(job));
  job.stack.gradient_sync_accumulates = true;
  const WorkGraph graph = build_work_graph(job);
  const double m = as_real(graph.microbatches);
  CHECK(m == 4);
  CHECK(ring_bytes(graph) == Approx(once / 2 * (1 + m)));
}

TEST_CASE("hybrid sharding gathers inside its block and reduces the shard across blocks") {
  spec::Job job = data_parallel(Sharding::parameters);
  job.plan.sharding_group_size = 8;
  const WorkGraph graph = build_work_graph(job);
  const auto ops = test::ops_of(graph.works.front());
  CHECK(test::traffic(ops, Collective::all_gather, GroupKind::data).calls == 0);
  const double scattered = test::traffic(ops, Collective::reduce_scatter, GroupKind::shard).payload;
  CHECK(scattered == Approx(2 * graph.parameters));
  CHECK(test::traffic(ops, Collective::all_reduce, GroupKind::replica).payload ==
        Approx(scattered / 8));
}

TEST_CASE("experts are reduced over their own group, everything else over the data group") {
  spec::Job job = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {1, 4, 4});
  job.plan.sharding = Sharding::optimizer;
  const WorkGraph graph = build_work_graph(job);
  double dense = 0, experts = 0;
  for (size_t stage = 0; stage < graph.step_work.size(); ++stage) {
    const auto ops = test::ops_of(graph.step_works.at(as_size(graph.step_work[stage])));
    dense += test::traffic(ops, Collective::all_gather, GroupKind::data).payload / 2;
    experts += test::traffic(ops, Collective::all_gather, GroupKind::expert_data).payload / 2;
  }
  const spec::ParameterCount count = spec::count_parameters(job.model);
  CHECK(experts == Approx(count.experts / 4));
  CHECK(dense == Approx(count.total() - count.experts));
}

TEST_CASE("buckets cut what is reduced, and what ZeRO gathers afterwards, into as many messages") {
  spec::Job job = data_parallel(Sharding::optimizer);
  const auto messages = [&](Collective kind) {
    int most = 0;
    for (const test::Counted& counted : test::ops_of(build_work_graph(job).step_works.front()))
      if (counted.op.is_communication() && counted.op.collective == kind &&
          counted.op.group == GroupKind::data)
        most = std::max(most, counted.op.kernels);
    return most;
  };
  CHECK(messages(Collective::reduce_scatter) == 1);
  job.plan.gradient_bucket = 100 * unit::MB;
  CHECK(messages(Collective::reduce_scatter) > 20);
  CHECK(messages(Collective::all_gather) == messages(Collective::reduce_scatter));
}

TEST_CASE("one copy of the parameters needs no data-parallel communication") {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::parameters}) {
    spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
    job.plan.sharding = sharding;
    const WorkGraph graph = build_work_graph(job);
    CHECK(ring_bytes(graph) == 0);
  }
}

TEST_CASE("tied embeddings add their gradients over the first and the last stage") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.model.tied_embeddings = true;
  const WorkGraph graph = build_work_graph(job);
  for (size_t stage = 0; stage < 4; ++stage) {
    const auto ops = test::ops_of(graph.step_works.at(as_size(graph.step_work[stage])));
    const auto tie = test::traffic(ops, Collective::all_reduce, GroupKind::embedding);
    CHECK(tie.calls == (stage == 0 || stage == 3 ? 1 : 0));
    if (tie.calls > 0) CHECK(tie.payload == Approx(4 * 51200.0 / 8 * 12288).epsilon(0.02));
  }
}

TEST_CASE(
    "the optimizer touches a shard of the states, and all ends with a tiny all-reduce over the "
    "model") {
  spec::Job job = data_parallel(Sharding::none);
  const auto update = [&] {
    const WorkGraph graph = build_work_graph(job);
    return graph.step_works.front().optimizer.front().hbm_bytes / unit::B;
  };
  const double psi = build_work_graph(job).parameters;
  // Gradient 4, moments 2 x 8, master 2 x 4, weight 2; the whole buffer is zeroed.
  job.plan.optimizer.master_bytes = 4;
  CHECK(update() == Approx((4 + 16 + 8 + 2 + 4) * psi));
  job.plan.sharding = Sharding::optimizer;
  CHECK(update() == Approx((4 + 16 + 8 + 2) * psi / 32 + 4 * psi));
  const WorkGraph pipeline = build_work_graph(test::gpt3_on_32({.tensor = 8, .pipeline = 4}));
  const spec::Op& last = pipeline.step_works.front().gradient_norm.back();
  CHECK(last.group == GroupKind::model);
  CHECK(last.payload == 4 * unit::B);
}

TEST_CASE("squares are added over data ranks where states or experts are dealt out over them") {
  const auto adds = [](const spec::Job& job) {
    const std::vector<spec::Op> ops = build_work_graph(job).step_works.front().gradient_norm;
    return std::ranges::any_of(ops, [](const spec::Op& op) { return op.group == GroupKind::data; });
  };
  spec::Job dense = data_parallel(Sharding::none);
  CHECK(!adds(dense));
  CHECK(adds(data_parallel(Sharding::optimizer)));
  spec::Job mixtral = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {1, 1, 8});
  mixtral.plan.sharding = Sharding::none;
  CHECK(adds(mixtral));
  mixtral.plan.expert_parallel_size = 1;
  CHECK(!adds(mixtral));
}

TEST_CASE("adapters in the work have as many weights as are synchronized, dense or with experts") {
  spec::Job mixtral = test::on_nodes(test::mixtral_8x22b(), 4);
  mixtral.model.moe->shared_expert_ffn_hidden_size = 2048;
  for (spec::Job job : {data_parallel(Sharding::none), mixtral}) {
    job.plan.sharding = Sharding::none;
    job.task = spec::Task::lora;
    job.plan.lora = spec::Lora{
        .rank = 16, .targets = {"attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2"}};
    const WorkGraph graph = build_work_graph(job);
    double weights = 0;
    for (const OpGroup& group : graph.works.front().backward_weight)
      for (const spec::Op& op : group.ops)
        weights += as_real(group.repeat * op.gemm.m * op.gemm.n);
    const auto sync = test::ops_of(graph.step_works.front());
    const double bytes = job.plan.optimizer.gradient_sync_bytes;
    CHECK(test::traffic(sync, Collective::all_reduce, GroupKind::data).payload ==
          Approx(bytes * weights));
  }
}

TEST_CASE("LoRA synchronizes and updates the adapters only") {
  spec::Job job = data_parallel(Sharding::optimizer);
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{.rank = 16, .targets = {"attention_qkv", "mlp_fc1"}};
  const double adapters = 24 * 16 * ((2048.0 + 3 * 2048) + (2048 + 4 * 2048));
  CHECK(ring_bytes(build_work_graph(job)) == Approx(2 * 2 * adapters * 31 / 32));
}

}  // namespace
}  // namespace triplepoint::workload
