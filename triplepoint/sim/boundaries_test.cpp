// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/boundaries.h"

#include <doctest/doctest.h>

namespace triplepoint::sim {
namespace {

using doctest::Approx;

/// Nodes of 8 devices with 4 NICs; only what the network needs to know.
spec::Job job_on(int64_t nodes, int64_t tensor, int64_t pipeline) {
  spec::Job job;
  job.cluster.num_nodes = nodes;
  job.cluster.gpus_per_node = 8;
  job.cluster.scale_up.bandwidth = 450 * unit::GB / unit::s;
  job.cluster.scale_up.domain_size = 8;
  job.cluster.scale_out.nics_per_node = 4;
  job.cluster.scale_out.nic_bandwidth = 50 * unit::GB / unit::s;
  job.cluster.scale_out.latency = 5 * unit::us;
  job.cluster.scale_out.half_size = 1 * unit::MB;
  job.plan.tensor_parallel_size = tensor;
  job.plan.pipeline_parallel_size = pipeline;
  job.plan.micro_batch_size = 1;
  job.plan.global_batch_size = 8 * job.data_parallel_size();
  return job;
}

struct TestBoundaries {
  spec::Job job;
  workload::WorkGraph graph;
  BoundaryEstimates estimate;

  explicit TestBoundaries(spec::Job the_job)
      : job(std::move(the_job)), graph{workload::RankGrid(job)} {
    graph.stages = job.plan.pipeline_parallel_size;
    graph.boundary_bytes = 4 * unit::MB;
    graph.programs = workload::build_programs(job);
    const std::vector<Pipeline> pipelines =
        form_pipelines(job, graph, draw_hardware_variation(job));
    estimate = estimate_boundaries(job, graph, pipelines);
  }
  Wiring wiring(SendMode mode = SendMode::blocking) const {
    return {estimate.boundaries, estimate.capacities, mode};
  }
  Seconds lone(size_t stage, Direction way) const {
    return wiring().wires(0)[2 * stage + as_size(way)].alone;
  }
  Seconds message(bool same_domain, double sharers) const {
    return perf::point_to_point_time(job.cluster, graph.boundary_bytes, same_domain, sharers)
        .total();
  }
};

TEST_CASE("a lone tensor takes what the model of one message says") {
  const TestBoundaries inside(job_on(1, 1, 8)), outside(job_on(8, 8, 8)),
      one_by_one(job_on(2, 1, 16));
  CHECK(inside.lone(3, Direction::next) == inside.message(true, 1));
  CHECK(one_by_one.lone(7, Direction::next) == one_by_one.message(false, 1));
  CHECK(one_by_one.lone(8, Direction::previous) == one_by_one.message(false, 1));
  CHECK(one_by_one.lone(8, Direction::next) == one_by_one.message(true, 1));
  // Eight ranks leave over four NICs.
  CHECK(outside.lone(0, Direction::next) / outside.message(false, 8) == Approx(1));
}

TEST_CASE("a pipeline on unshared links needs no flows, one whose directions meet does") {
  CHECK(TestBoundaries(job_on(1, 1, 8)).wiring().classes().empty());
  CHECK(TestBoundaries(job_on(4, 1, 32)).wiring().classes().empty());  // in and out at different
                                                                       // devices
  CHECK(TestBoundaries(job_on(2, 8, 2)).wiring().classes().empty());  // forwards one way, gradients
                                                                      // the other
  CHECK_FALSE(TestBoundaries(job_on(4, 8, 4)).wiring().classes().empty());
}

TEST_CASE("replicas are simulated together if their devices share NICs, and apart if not") {
  spec::Job job = job_on(2, 1, 8);
  job.plan.rank_order = spec::RankOrder::tp_pp_dp;  // a replica fills a node and never leaves it
  CHECK(TestBoundaries(job).wiring().clusters().size() == 2);
  // Eight replicas side by side, a stage on each node: two devices per NIC.
  const Wiring pairs = TestBoundaries(job_on(2, 1, 2)).wiring();
  CHECK(pairs.clusters().size() == 4);
  CHECK(pairs.clusters()[0].pipelines == std::vector<size_t>{0, 1});
  // Four of two ranks: each has a NIC to itself.
  const Wiring single = TestBoundaries(job_on(2, 2, 2)).wiring();
  CHECK(single.clusters().size() == 4);
  CHECK_FALSE(single.clusters()[0].has_flows);
}

TEST_CASE("nodes of one NVLink domain need no NIC") {
  spec::Job job = job_on(4, 8, 4);
  job.cluster.scale_up.domain_size = 32;
  const TestBoundaries test(job);
  CHECK(test.wiring().classes().empty());
  CHECK(test.lone(0, Direction::next) == test.message(true, 1));
  CHECK(test.estimate.estimates[0][0][0].scale_out_bytes == Bytes());
}

TEST_CASE("the uplinks of an oversubscribed leaf hold back what crosses it, and only that") {
  const auto lone = [](double oversubscription, size_t stage) {
    spec::Job job = job_on(8, 8, 8);
    job.cluster.scale_out.nodes_per_leaf = 4;
    job.cluster.scale_out.oversubscription = oversubscription;
    const TestBoundaries test(job);
    const Wire wire = test.wiring().wires(0)[2 * stage];
    return wire.alone - wire.latency;
  };
  // One node of four sends: a leaf may be oversubscribed four times before it feels that.
  CHECK(lone(4, 3) / lone(1, 3) == Approx(1));
  CHECK(lone(8, 3) / lone(1, 3) == Approx(2));
  CHECK(lone(8, 2) / lone(1, 2) == Approx(1));
}

/// What a tensor takes alone, without its latency.
double flow_seconds(const TestBoundaries& test, size_t stage) {
  const Wire wire = test.wiring().wires(0)[2 * stage];
  return (wire.alone - wire.latency) / unit::s;
}

TEST_CASE("tensors between groups of a dragonfly share the global links, others the local ones") {
  spec::Job job = job_on(8, 8, 8);
  const double over_four_nics = flow_seconds(TestBoundaries(job), 3);
  job.cluster.scale_out.kind = spec::FabricKind::dragonfly;
  job.cluster.scale_out.nodes_per_leaf = 1;
  job.cluster.scale_out.nodes_per_group = 4;
  job.cluster.scale_out.oversubscription = 8;  // 16 NICs below, 2 across
  CHECK(flow_seconds(TestBoundaries(job), 3) / over_four_nics == Approx(2));
  CHECK(flow_seconds(TestBoundaries(job), 2) / over_four_nics == Approx(4 / (8 / 3.0)));
}

TEST_CASE("each switch beyond the first adds its latency") {
  spec::Job job = job_on(8, 8, 8);
  job.cluster.scale_out.nodes_per_leaf = 4;
  job.cluster.scale_out.hop_latency = 1 * unit::us;
  const TestBoundaries test(job);
  const auto latency = [&](size_t stage) {
    return test.wiring().wires(0)[2 * stage].latency / unit::us;
  };
  CHECK(latency(2) == Approx(5));
  CHECK(latency(3) == Approx(5 + 2));
}

TEST_CASE("on rails a tensor for another rail is handed over and leaves by that rail") {
  spec::Job job = job_on(2, 8, 2);
  job.cluster.scale_up.latency = 1 * unit::us;
  job.plan.device_order = {0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0};
  const auto rails_kept = [](const TestBoundaries& test) {
    const std::vector<LinkUse>& links = test.estimate.boundaries[0][0].next.links;
    bool kept = true;
    for (size_t i = 0; i < links.size(); i += 2)  // NIC out of node 0, NIC into node 1
      kept = kept && links[i + 1].link - links[i].link == 3 * 4;
    return kept;
  };
  const TestBoundaries tree(job);
  CHECK_FALSE(rails_kept(tree));
  job.cluster.scale_out.kind = spec::FabricKind::rail_optimized;
  const TestBoundaries rails(job);
  CHECK(rails_kept(rails));
  const Seconds longer =
      rails.estimate.estimates[0][0][0].latency - tree.estimate.estimates[0][0][0].latency;
  CHECK(longer / job.cluster.scale_up.latency == Approx(1));
}

TEST_CASE("a send in four chunks is four messages, one behind the other") {
  spec::Job job = job_on(2, 1, 16);
  const Seconds whole = TestBoundaries(job).lone(7, Direction::next);
  job.plan.sends = spec::PipelineSends{.chunk = 4 * unit::MB};
  CHECK(TestBoundaries(job).lone(7, Direction::next) == whole);
  job.plan.sends->chunk = 1 * unit::MB;
  const Seconds piece = perf::point_to_point_time(job.cluster, 1 * unit::MB, false, 1).total();
  CHECK(TestBoundaries(job).lone(7, Direction::next) / piece == Approx(4));
  job.plan.sends->chunk = 3 * unit::MB;  // and a rest of 1 MB
  const Seconds most = perf::point_to_point_time(job.cluster, 3 * unit::MB, false, 1).total();
  CHECK(TestBoundaries(job).lone(7, Direction::next) / (most + piece) == Approx(1));
}

TEST_CASE("a send over all NICs loads each with its share, and eight of them share what four do") {
  spec::Job job = job_on(8, 8, 8);
  job.cluster.scale_out.half_size = {};  // a message's rate does not depend on its size
  const TestBoundaries one(job);
  job.plan.sends = spec::PipelineSends{.nics = 4};
  const TestBoundaries all(job);
  CHECK(all.estimate.boundaries[0][0].next.links.size() ==
        4 * one.estimate.boundaries[0][0].next.links.size());
  // Two ranks a NIC before, eight quarters a NIC now.
  CHECK(all.lone(0, Direction::next) / one.lone(0, Direction::next) == Approx(1));
  job.plan.tensor_parallel_size = 1;
  job.plan.pipeline_parallel_size = 64;
  const TestBoundaries wide(job);
  job.plan.sends->nics = 1;
  const TestBoundaries narrow(job);
  CHECK(narrow.estimate.boundaries[0][7].next.transfer /
            wide.estimate.boundaries[0][7].next.transfer ==
        Approx(4));
}

TEST_CASE("microbatches that leave together are one message of all their bytes") {
  spec::Job job = job_on(2, 1, 16);
  job.plan.sends = spec::PipelineSends{.microbatches = 4};
  const TestBoundaries test(job);
  const Boundary& boundary = test.estimate.boundaries[0][7].next;
  CHECK(boundary.bytes_per_rank == 16 * unit::MB);
  CHECK(boundary.microbatches == 4);
  CHECK(test.lone(7, Direction::next) ==
        perf::point_to_point_time(job.cluster, 16 * unit::MB, false, 1).total());
}

TEST_CASE("scatter-gather sends a part each, and gathers in the node behind it") {
  spec::Job job = job_on(2, 8, 2);
  const TestBoundaries whole(job);
  job.plan.sends = spec::PipelineSends{.scatter_gather = true};
  const TestBoundaries parts(job);
  const Boundary& boundary = parts.estimate.boundaries[0][0].next;
  CHECK(boundary.bytes_per_rank == whole.graph.boundary_bytes / 8);
  const Seconds gather =
      perf::collective_time(job.cluster, spec::Collective::all_gather, whole.graph.boundary_bytes,
                            {.ranks = 8, .nodes = 1, .ranks_per_node = 8})
          .total();
  const Seconds message =
      perf::point_to_point_time(job.cluster, whole.graph.boundary_bytes / 8, false, 1).latency;
  CHECK((boundary.latency - message) / gather == Approx(1));
  job.plan.sequence_parallel = true;  // each rank holds its part only
  CHECK(TestBoundaries(job).estimate.boundaries[0][0].next.bytes_per_rank ==
        whole.graph.boundary_bytes);
}

TEST_CASE("what is never sent does not count for sharing") {
  spec::Job job = job_on(4, 8, 4);
  job.task = spec::Task::prefill;
  const TestBoundaries test(job);
  CHECK(test.wiring().classes().empty());
  CHECK(test.estimate.boundaries[0][3].next.bytes_per_rank == Bytes());
  CHECK(test.estimate.boundaries[0][1].previous.bytes_per_rank == Bytes());
}

}  // namespace
}  // namespace triplepoint::sim
