// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/workload/jobs_testing.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::Collective;
using spec::GroupKind;

spec::Job mixtral(test::Layout layout) {
  return test::with(test::on_nodes(test::mixtral_8x22b(), 4), layout);
}

ChunkWork middle_stage(const spec::Job& job) {
  const WorkGraph graph = build_work_graph(job);
  const size_t middle = graph.stages > 1 ? 1 : 0;
  return graph.works.at(static_cast<size_t>(graph.chunk_work.at(middle).at(0)));
}

bool is_expert(const spec::Op& op) {
  return op.name.substr(0, 6) == "expert" && test::is_gemm(op);
}

TEST_CASE(
    "dispatch and combine each carry tokens x top-k x hidden, twice forward and twice backward") {
  for (const test::Layout layout :
       {test::Layout{1, 4, 8}, test::Layout{2, 2, 8}, test::Layout{4, 1, 8}}) {
    const spec::Job job = mixtral(layout);
    const ChunkWork work = middle_stage(job);
    const auto all = test::traffic(test::ops_of(work), Collective::all_to_all, GroupKind::expert);
    const auto l = static_cast<double>(work.num_layers);
    const double tokens = 4096.0 / static_cast<double>(layout.tensor);
    CHECK(all.calls == 4 * l);
    CHECK(all.payload == Approx(4 * l * tokens * 2 * 6144 * 2));
  }
}

TEST_CASE("rows that travel once come in fewer bytes than a copy to every expert") {
  const auto payload = [](test::Layout layout, bool fused, bool copies) {
    spec::Job job = mixtral(layout);
    job.stack.fused_moe_dispatch = fused;
    job.stack.moe_sends_every_copy = copies;
    return test::traffic(test::ops_of(middle_stage(job)), Collective::all_to_all, GroupKind::expert)
        .payload;
  };
  // Both experts of a row lie on one of 8 ranks in one case of 8, on one of 2 nodes in one of 2.
  for (const auto& [layout, places] : {std::pair{test::Layout{1, 4, 8}, 8.0}, {{2, 2, 8}, 2.0}}) {
    const double every_copy = payload(layout, false, false);
    CHECK(payload(layout, true, false) == Approx(every_copy * (2 - 1 / places) / 2));
    CHECK(payload(layout, true, true) == every_copy);
  }
}

TEST_CASE(
    "ranks tell each other the rows of every expert, once a forward pass, unless all are alike") {
  spec::Job job = mixtral({2, 2, 8});
  job.plan.sequence_parallel = true;
  job.plan.expert_tensor_parallel_size = 2;
  job.model.moe->pad_to_capacity = false;
  const auto told = [&](GroupKind group) {
    return test::traffic(test::ops_of(middle_stage(job)), Collective::all_gather, group);
  };
  const auto layers = static_cast<double>(middle_stage(job).num_layers);
  const double experts = static_cast<double>(job.model.moe->num_experts);
  CHECK(told(GroupKind::expert).calls == layers);
  CHECK(told(GroupKind::expert).payload == layers * 4 * 8 * experts);
  job.model.moe->capacity_factor = 1.0;
  job.model.moe->pad_to_capacity = true;
  CHECK(told(GroupKind::expert).calls == 0);
}

TEST_CASE("experts do top-k times the flops of a dense MLP, however they are spread") {
  const double mlp = 3 * 6144.0 * 16384;
  for (const test::Layout layout :
       {test::Layout{1, 4, 8}, test::Layout{2, 2, 8}, test::Layout{4, 1, 8}, test::Layout{4, 2, 1},
        test::Layout{1, 4, 2}})
    for (const int64_t expert_tensor : {layout.tensor, int64_t{1}}) {
      spec::Job job = mixtral(layout);
      job.plan.expert_tensor_parallel_size = expert_tensor;
      const ChunkWork work = middle_stage(job);
      const double each_rank = 6 * 4096 * 2 * mlp * static_cast<double>(work.num_layers) /
                               static_cast<double>(layout.tensor);
      CHECK(test::flops(test::ops_of(work), is_expert) == Approx(each_rank));
    }
}

TEST_CASE("capacity, padding and imbalance decide how many rows an expert rank computes") {
  const auto rows = [](std::optional<double> capacity, bool pad, double imbalance) {
    spec::Job job = mixtral({1, 4, 8});
    job.model.moe->capacity_factor = capacity;
    job.model.moe->pad_to_capacity = pad;
    job.model.moe->load_imbalance = imbalance;
    return test::flops(test::ops_of(middle_stage(job)), is_expert);
  };
  const double balanced = rows(std::nullopt, false, 1);
  CHECK(rows(std::nullopt, false, 1.5) == Approx(1.5 * balanced));
  CHECK(rows(1.25, true, 1) == Approx(1.25 * balanced));
  CHECK(rows(1.25, false, 1.5) == Approx(1.25 * balanced));
  CHECK(rows(2.0, false, 1.5) == Approx(1.5 * balanced));
}

TEST_CASE("without grouped GEMM every local expert is its own launch") {
  spec::Job job = mixtral({1, 4, 2});
  const auto launches = [&] {
    std::pair<int, int64_t> kernels_and_products{0, 0};
    for (const auto& [op, times] : test::ops_of(middle_stage(job)))
      if (op.name == "expert_up") {
        kernels_and_products = {op.kernels, op.gemm.count};
        CHECK(op.op_class ==
              (job.model.moe->grouped_gemm ? spec::OpClass::grouped_gemm : spec::OpClass::gemm));
      }
    return kernels_and_products;
  };
  CHECK(launches() == std::pair<int, int64_t>{4, 4});
  job.model.moe->grouped_gemm = true;
  CHECK(launches() == std::pair<int, int64_t>{1, 4});
}

TEST_CASE("expert TP gathers rows forward and scatters them back, mirrored backward") {
  const spec::Job job = mixtral({4, 1, 8});
  const ChunkWork work = middle_stage(job);
  const auto ops = test::ops_of(work);
  const auto l = static_cast<double>(work.num_layers);
  const double rows = 4096.0 * 2 * 6144 * 2;  // of all four TP ranks together
  CHECK(test::traffic(ops, Collective::all_gather, GroupKind::expert_tensor).payload ==
        Approx(2 * l * rows));
  CHECK(test::traffic(ops, Collective::reduce_scatter, GroupKind::expert_tensor).payload ==
        Approx(2 * l * rows));
}

TEST_CASE("a shared expert adds the flops of a dense MLP of its size") {
  spec::Job job = mixtral({1, 4, 8});
  const double without = test::flops(test::ops_of(middle_stage(job)), test::is_gemm);
  job.model.moe->shared_expert_ffn_hidden_size = 2048;
  const ChunkWork work = middle_stage(job);
  CHECK(test::flops(test::ops_of(work), test::is_gemm) - without ==
        Approx(6 * 4096 * 3 * 6144.0 * 2048 * static_cast<double>(work.num_layers)));
}

TEST_CASE("leading dense layers are layers like those of a dense model") {
  spec::Job job = mixtral({1, 4, 8});
  job.model.moe->num_dense_layers = 3;
  const WorkGraph graph = build_work_graph(job);
  const ChunkWork& first = graph.works.at(static_cast<size_t>(graph.chunk_work[0][0]));
  int64_t dense = 0, moe = 0;
  for (const OpGroup& group : first.forward) {
    if (group.name == "layer") dense += group.repeat;
    if (group.name == "moe_layer") moe += group.repeat;
  }
  CHECK(dense == 3);
  CHECK(moe == 56 / 4 - 3);
}

}  // namespace
}  // namespace triplepoint::workload
