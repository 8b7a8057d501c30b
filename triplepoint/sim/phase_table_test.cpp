// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/phase_table.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/job_testing.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

spec::Job mixtral(int64_t expert_parallel) {
  spec::Job job = spec::job_of_text(R"(
model = "mixtral-8x7b"
cluster = "hgx-h200"
nodes = 1
[plan]
global_batch_size = 8
)");
  job.plan.expert_parallel_size = expert_parallel;
  job.stack.moe_layer_host = 0.5 * unit::ms;
  job.stack.moe_expert_host = 0.1 * unit::ms;
  return job;
}

Seconds stall_of_forward(const spec::Job& job) {
  const workload::WorkGraph graph = workload::build_work_graph(job);
  return most_of(estimate_action(job, graph, graph.works.front(), workload::ActionKind::forward),
                 &GroupEstimate::stall);
}

TEST_CASE("an MoE pass stops for its router, and for every expert of its rank") {
  // Megatron's dispatcher reads the counts on a single rank as well, for the experts' products.
  CHECK(stall_of_forward(mixtral(1)) / unit::ms == Approx(1.3));
  CHECK(stall_of_forward(mixtral(8)) / unit::ms == Approx(0.6));
  CHECK(stall_of_forward(mixtral(2)) / unit::ms == Approx(0.9));
}

TEST_CASE("each message of a collective that is cut waits on its own, for the same bytes") {
  const spec::Job job = mixtral(1);
  const workload::WorkGraph graph = workload::build_work_graph(job);
  spec::Op op;
  op.op_class = spec::OpClass::communication;
  op.collective = spec::Collective::all_gather;
  op.group = spec::GroupKind::data;
  op.payload = 1 * unit::GB;
  const perf::CollectiveTime whole = estimate_op(job, graph, op).collective;
  op.kernels = 50;
  const perf::CollectiveTime cut = estimate_op(job, graph, op).collective;
  CHECK(cut.latency / whole.latency == Approx(50));
  CHECK(cut.total() > whole.total());
  CHECK(cut.scale_up_bytes / whole.scale_up_bytes == Approx(1));
}

/// Kernels of 10 ms and a hidden collective, at the highest clock.
GroupPoint beside_collective(Seconds collective, double compute_loss) {
  spec::Op product, gather;
  product.op_class = spec::OpClass::gemm;
  gather.op_class = spec::OpClass::communication;
  GroupEstimate group;
  group.ops.resize(2);
  group.ops[0].op = &product;
  group.ops[0].kernel.compute = 10 * unit::ms;
  group.ops[1].op = &gather;
  group.ops[1].collective.transfer = collective;
  group.ops[1].hidden = true;
  spec::Stack stack;
  stack.overlap_compute_loss = compute_loss;
  return PhaseTable({group}, stack, 1, 0.01).groups_at(0).front();
}

/// A layer's forward pass with this share of its activations on the way to the host.
GroupPoint with_offload(double share, double bandwidth_factor) {
  spec::Job job = mixtral(8);
  job.plan.activation_offload = share;
  job.cluster.gpu.host_bandwidth = bandwidth_factor * *job.cluster.gpu.host_bandwidth;
  const workload::WorkGraph graph = workload::build_work_graph(job);
  std::vector<GroupEstimate> groups =
      estimate_action(job, graph, graph.works.front(), workload::ActionKind::forward);
  std::erase_if(groups, [](const GroupEstimate& group) { return !group.is_layer; });
  return PhaseTable(groups, job.stack, 1, 0.01).groups_at(0).front();
}

TEST_CASE("copies to the host cost time only where they last longer than the layer") {
  const GroupPoint without = with_offload(0, 1);
  const GroupPoint hidden = with_offload(1, 1000);
  CHECK(hidden.busy == without.busy);
  CHECK(hidden.load.communicating == without.load.communicating);
  CHECK(hidden.load.hbm_bytes > without.load.hbm_bytes);
  const GroupPoint slow = with_offload(1, 0.01), slower = with_offload(1, 0.005);
  CHECK(slow.busy > 2 * without.busy);
  CHECK(slower.busy / slow.busy == Approx(2));
}

TEST_CASE("kernels beside a collective get 1 - loss of its time") {
  // A collective that ends first takes loss times its length; one that outlasts the kernels slows
  // all of them, until they end.
  CHECK(beside_collective(4 * unit::ms, 0.5).compute / unit::ms == Approx(12));
  CHECK(beside_collective(20 * unit::ms, 0.5).compute / unit::ms == Approx(20));
  CHECK(beside_collective(100 * unit::ms, 0.5).compute / unit::ms == Approx(20));
  CHECK(beside_collective(100 * unit::ms, 0.5).busy / unit::ms == Approx(100));
  // Kernels that come to a stop wait for its end.
  CHECK(beside_collective(100 * unit::ms, 1).compute / unit::ms == Approx(110));
  CHECK(beside_collective(0 * unit::ms, 0.5).compute / unit::ms == Approx(10));
}

}  // namespace
}  // namespace triplepoint::sim
