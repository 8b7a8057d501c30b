// SPDX-License-Identifier: Apache-2.0
// How tensors between stages travel: what one rank's part costs alone, and the links it uses.
//
// All tensors of a job have one size, so one message inside a domain and one between domains are
// estimated, and each boundary takes one of the two with the detour of its route. Faults add slowed
// ones. Links are numbered node by node (NICs outwards, then inwards), then the fabric's.
#include "triplepoint/sim/boundaries.h"

#include <algorithm>

#include "triplepoint/perf/fabric.h"
#include "triplepoint/sim/phase_table.h"

namespace triplepoint::sim {
namespace {

/// The links of a cluster by number: per node its NICs outwards, then inwards; then the fabric's.
class LinkMap {
 public:
  explicit LinkMap(const spec::Cluster& cluster)
      : cluster_(cluster),
        nics_(std::max<int64_t>(1, cluster.scale_out.nics_per_node)),
        fabric_(cluster) {}

  std::vector<BytesPerSecond> capacities(BytesPerSecond nic) const {
    std::vector<BytesPerSecond> capacities(as_size(first_of_fabric()), nic);
    for (const double nics : fabric_.capacities())
      capacities.push_back(nics * nic);
    return capacities;
  }

  /// A share of the NICs of each node.
  void slow_down(std::span<const double> share, std::vector<BytesPerSecond>& capacities) const {
    for (size_t node = 0; node < share.size(); ++node)
      for (size_t link = 0; link < as_size(2 * nics_); ++link)
        capacities[node * as_size(2 * nics_) + link] *= share[node];
  }

  /// Over the `way`-th of the NICs that a send uses.
  perf::Route route(int64_t from, int64_t to, int64_t way) const {
    return fabric_.route(port_of(from, way), port_of(to, way));
  }

  void add_path(const perf::Route& route, std::vector<LinkUse>& links) const {
    links.push_back({nic_link(route.leaves, 0)});
    links.push_back({nic_link(route.arrives, 1)});
    for (const int32_t link : route.links)
      links.push_back({static_cast<int32_t>(first_of_fabric()) + link});
  }

  bool crosses_domains(int64_t from, int64_t to) const {
    const int64_t nodes =
        std::max<int64_t>(1, cluster_.scale_up.domain_size / cluster_.gpus_per_node);
    return node_of(from) / nodes != node_of(to) / nodes;
  }

 private:
  int64_t first_of_fabric() const { return 2 * cluster_.num_nodes * nics_; }
  int64_t node_of(int64_t device) const { return device / cluster_.gpus_per_node; }
  perf::Port port_of(int64_t device, int64_t way) const {
    const int64_t local = device % cluster_.gpus_per_node;
    return {.node = node_of(device),
            .rail = (local * nics_ / cluster_.gpus_per_node + way) % nics_};
  }
  int32_t nic_link(perf::Port port, int64_t inwards) const {
    return static_cast<int32_t>((2 * port.node + inwards) * nics_ + port.rail);
  }

  const spec::Cluster& cluster_;
  int64_t nics_;
  perf::FabricTopology fabric_;
};

/// Whether ranks of a tensor group that all hold a boundary's tensor send a part each.
bool sends_by_parts(const spec::Job& job) {
  return job.plan.sends && job.plan.sends->scatter_gather && !job.plan.sequence_parallel &&
         job.plan.tensor_parallel_size > 1;
}

perf::CollectiveTime gather_of(const spec::Job& job, const workload::WorkGraph& graph) {
  if (!sends_by_parts(job)) return {};
  spec::Op gather;
  gather.op_class = spec::OpClass::communication;
  gather.collective = spec::Collective::all_gather;
  gather.group = spec::GroupKind::tensor;
  gather.payload = as_real(job.plan.tensor_parallel_size) * send_size(job, graph);
  return estimate_op(job, graph, gather).collective;
}

class BoundaryEstimator {
 public:
  BoundaryEstimator(const spec::Job& job, const workload::WorkGraph& graph,
                    const Conditions* conditions)
      : graph_(graph),
        cluster_(job.cluster),
        conditions_(conditions),
        links_(job.cluster),
        sends_(job.plan.sends.value_or(spec::PipelineSends())),
        bytes_(send_size(job, graph)),
        gather_(gather_of(job, graph)),
        inside_(send_time(job.cluster, true)),
        outside_(send_time(job.cluster, false)) {
    const bool sends = outside_.transfer > Seconds();
    // A send over several NICs puts its share on each; capacities count in whole sends.
    capacities_ =
        links_.capacities(sends ? bytes_ / outside_.transfer : job.cluster.scale_out.nic_bandwidth);
    if (conditions) links_.slow_down(conditions->scale_out_share, capacities_);
  }

  BoundaryEstimates estimate(std::span<const Pipeline> pipelines) const {
    BoundaryEstimates estimate{.capacities = capacities_};
    for (const Pipeline& pipeline : pipelines) {
      estimate.estimates.emplace_back(pipeline.groups.size());
      estimate.boundaries.emplace_back(pipeline.groups.size());
      for (size_t s = 0; s < pipeline.groups.size(); ++s)
        estimate_stage(pipeline, s, estimate.estimates.back()[s], estimate.boundaries.back()[s]);
    }
    return estimate;
  }

 private:
  /// What the schedule never sends stays empty: it must not count as a sharing rank.
  void estimate_stage(const Pipeline& pipeline, size_t s,
                      std::array<perf::CollectiveTime, 2>& estimates,
                      StageBoundaries& boundaries) const {
    const size_t stages = pipeline.groups.size();
    const bool wraps = graph_.virtual_stages > 1;
    if (stages == 1) return;
    if (wraps || s + 1 < stages)
      estimate_way(pipeline.groups[s], pipeline.groups[(s + 1) % stages], estimates[0],
                   boundaries.next);
    if (has_backward() && (wraps || s > 0))
      estimate_way(pipeline.groups[s], pipeline.groups[(s + stages - 1) % stages], estimates[1],
                   boundaries.previous);
  }

  bool has_backward() const {
    const workload::StageProgram& program = graph_.programs.front();
    return std::ranges::any_of(program, [](const workload::Action& action) {
      return action.kind != workload::ActionKind::forward;
    });
  }

  /// Rank by rank to its peer. The slowest way sets the pace of the lockstep group.
  void estimate_way(const LockstepGroup& from, const LockstepGroup& to,
                    perf::CollectiveTime& estimate, Boundary& boundary) const {
    double crossing = 0;
    Seconds detour;
    for (size_t r = 0; r < from.devices.size(); ++r) {
      // Ranks r of both groups have equal coordinates but for the stage, so they are peers.
      if (!links_.crosses_domains(from.devices[r], to.devices[r])) continue;
      for (int64_t way = 0; way < sends_.nics; ++way) {
        const perf::Route route = links_.route(from.devices[r], to.devices[r], way);
        links_.add_path(route, boundary.links);
        detour = std::max(detour, detour_of(route));
      }
      ++crossing;
    }
    const double share = crossing / as_real(from.devices.size());
    estimate = slowed_estimate(from, to, crossing > 0);
    estimate.latency += detour + gather_.total();
    estimate.scale_up_bytes = (1 - share) * bytes_ + gather_.scale_up_bytes;
    estimate.scale_out_bytes = share * bytes_ + gather_.scale_out_bytes;
    boundary.bytes_per_rank = bytes_;
    boundary.microbatches = static_cast<int32_t>(sends_.microbatches);
    boundary.latency = estimate.latency;
    boundary.transfer = estimate.transfer;
  }

  /// Beyond what a message takes through one switch.
  Seconds detour_of(const perf::Route& route) const {
    const auto further = as_real(std::max<int64_t>(0, route.hops - 1));
    return further * cluster_.scale_out.hop_latency +
           (route.handed_over ? cluster_.scale_up.latency : Seconds());
  }

  /// What a tensor takes alone on the slowest way between two lockstep groups.
  perf::CollectiveTime slowed_estimate(const LockstepGroup& from, const LockstepGroup& to,
                                       bool crosses) const {
    const perf::CollectiveTime& whole = crosses ? outside_ : inside_;
    if (!conditions_) return whole;
    double share = 1;
    for (const LockstepGroup* group : {&from, &to})
      for (const int64_t device : group->devices) {
        const auto node = as_size(device / cluster_.gpus_per_node);
        share = std::min(share, crosses ? conditions_->scale_out_share[node]
                                        : conditions_->scale_up_share[as_size(device)]);
      }
    if (share == 1) return whole;
    spec::Cluster slow = cluster_;
    slow.scale_up.bandwidth *= share;
    slow.scale_out.nic_bandwidth *= share;
    return send_time(slow, !crosses);
  }

  perf::CollectiveTime send_time(const spec::Cluster& cluster, bool same_domain) const {
    return perf::cut_send_time(cluster, bytes_, same_domain, sends_.chunk.value_or(Bytes()),
                               sends_.nics);
  }

  const workload::WorkGraph& graph_;
  const spec::Cluster& cluster_;
  const Conditions* conditions_;
  LinkMap links_;
  spec::PipelineSends sends_;
  Bytes bytes_;                  // of one rank's send
  perf::CollectiveTime gather_;  // behind it, in the receivers' tensor group
  perf::CollectiveTime inside_, outside_;
  std::vector<BytesPerSecond> capacities_;
};

}  // namespace

Bytes send_size(const spec::Job& job, const workload::WorkGraph& graph) {
  if (!job.plan.sends) return graph.boundary_bytes;
  const double parts = sends_by_parts(job) ? as_real(job.plan.tensor_parallel_size) : 1;
  return as_real(job.plan.sends->microbatches) / parts * graph.boundary_bytes;
}

BoundaryEstimates estimate_boundaries(const spec::Job& job, const workload::WorkGraph& graph,
                                      std::span<const Pipeline> pipelines,
                                      const Conditions* conditions) {
  return BoundaryEstimator(job, graph, conditions).estimate(pipelines);
}

}  // namespace triplepoint::sim
