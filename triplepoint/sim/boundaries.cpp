// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/boundaries.h"

#include <algorithm>

namespace triplepoint::sim {
namespace {

/// The links of a cluster by number: per node its NICs outwards, then inwards; then per leaf switch
/// up, down.
class LinkMap {
 public:
  explicit LinkMap(const spec::Cluster& cluster)
      : cluster_(cluster),
        nics_(std::max<int64_t>(1, cluster.scale_out.nics_per_node)),
        nodes_per_leaf_(std::max<int64_t>(1, cluster.scale_out.nodes_per_leaf)) {}

  std::vector<BytesPerSecond> capacities(BytesPerSecond nic) const {
    std::vector<BytesPerSecond> capacities(static_cast<size_t>(2 * cluster_.num_nodes * nics_),
                                           nic);
    if (!has_leaves()) return capacities;
    const double below = static_cast<double>(nodes_per_leaf_ * nics_);
    const BytesPerSecond uplink = below / cluster_.scale_out.oversubscription * nic;
    capacities.insert(capacities.end(), static_cast<size_t>(2 * leaves()), uplink);
    return capacities;
  }

  /// A share of the NICs of each node.
  void slow_down(std::span<const double> share, std::vector<BytesPerSecond>& capacities) const {
    for (size_t node = 0; node < share.size(); ++node)
      for (size_t link = 0; link < static_cast<size_t>(2 * nics_); ++link)
        capacities[node * static_cast<size_t>(2 * nics_) + link] *= share[node];
  }

  void add_path(int64_t from, int64_t to, std::vector<LinkUse>& links) const {
    links.push_back({nic_link(from, 0)});
    links.push_back({nic_link(to, 1)});
    const int64_t leaf_from = node_of(from) / nodes_per_leaf_,
                  leaf_to = node_of(to) / nodes_per_leaf_;
    if (!has_leaves() || leaf_from == leaf_to) return;
    links.push_back({leaf_link(leaf_from, 0)});
    links.push_back({leaf_link(leaf_to, 1)});
  }

  bool crosses_domains(int64_t from, int64_t to) const {
    const int64_t nodes =
        std::max<int64_t>(1, cluster_.scale_up.domain_size / cluster_.gpus_per_node);
    return node_of(from) / nodes != node_of(to) / nodes;
  }

 private:
  int64_t node_of(int64_t device) const { return device / cluster_.gpus_per_node; }
  int64_t leaves() const { return (cluster_.num_nodes + nodes_per_leaf_ - 1) / nodes_per_leaf_; }
  bool has_leaves() const { return cluster_.scale_out.oversubscription > 1 && leaves() > 1; }

  int32_t nic_link(int64_t device, int64_t inwards) const {
    const int64_t local = device % cluster_.gpus_per_node;
    const int64_t nic = local * nics_ / cluster_.gpus_per_node;
    return static_cast<int32_t>((2 * node_of(device) + inwards) * nics_ + nic);
  }
  int32_t leaf_link(int64_t leaf, int64_t down) const {
    return static_cast<int32_t>(2 * cluster_.num_nodes * nics_ + 2 * leaf + down);
  }

  const spec::Cluster& cluster_;
  int64_t nics_, nodes_per_leaf_;
};

class Pricer {
 public:
  Pricer(const spec::Job& job, const workload::WorkGraph& graph, const Conditions* conditions)
      : graph_(graph),
        cluster_(job.cluster),
        conditions_(conditions),
        links_(job.cluster),
        inside_(perf::point_to_point_time(job.cluster, graph.boundary_bytes, true, 1)),
        outside_(perf::point_to_point_time(job.cluster, graph.boundary_bytes, false, 1)) {
    const bool sends = outside_.transfer > Seconds();
    capacities_ = links_.capacities(sends ? graph.boundary_bytes / outside_.transfer
                                          : job.cluster.scale_out.nic_bandwidth);
    if (conditions) links_.slow_down(conditions->scale_out_share, capacities_);
  }

  PricedBoundaries price(std::span<const Pipeline> pipelines) const {
    PricedBoundaries priced{.prices = {}, .boundaries = {}, .capacities = capacities_};
    for (const Pipeline& pipeline : pipelines) {
      priced.prices.emplace_back(pipeline.teams.size());
      priced.boundaries.emplace_back(pipeline.teams.size());
      for (size_t s = 0; s < pipeline.teams.size(); ++s)
        price_stage(pipeline, s, priced.prices.back()[s], priced.boundaries.back()[s]);
    }
    return priced;
  }

 private:
  /// What the schedule never sends stays empty: it must not count as somebody to share with.
  void price_stage(const Pipeline& pipeline, size_t s, std::array<perf::CollectiveTime, 2>& prices,
                   StageBoundaries& boundaries) const {
    const size_t stages = pipeline.teams.size();
    const bool wraps = graph_.virtual_stages > 1;
    if (stages == 1) return;
    if (wraps || s + 1 < stages)
      price_way(pipeline.teams[s], pipeline.teams[(s + 1) % stages], prices[0], boundaries.next);
    if (has_backward() && (wraps || s > 0))
      price_way(pipeline.teams[s], pipeline.teams[(s + stages - 1) % stages], prices[1],
                boundaries.previous);
  }

  bool has_backward() const {
    const workload::StageProgram& program = graph_.programs.front();
    return std::any_of(program.begin(), program.end(), [](const workload::Action& action) {
      return action.kind != workload::ActionKind::forward;
    });
  }

  /// Rank by rank to its peer. The slowest way sets the pace of the team.
  void price_way(const Team& from, const Team& to, perf::CollectiveTime& price,
                 Boundary& boundary) const {
    double crossing = 0;
    for (size_t r = 0; r < from.devices.size(); ++r) {
      if (!links_.crosses_domains(from.devices[r], to.devices[r])) continue;
      links_.add_path(from.devices[r], to.devices[r], boundary.links);
      ++crossing;
    }
    const double share = crossing / static_cast<double>(from.devices.size());
    price = slowed_price(from, to, crossing > 0);
    price.scale_up_bytes = (1 - share) * graph_.boundary_bytes;
    price.scale_out_bytes = share * graph_.boundary_bytes;
    boundary.bytes_per_rank = graph_.boundary_bytes;
    boundary.latency = price.latency;
    boundary.transfer = price.transfer;
  }

  /// What a tensor takes alone on the slowest way between two teams.
  perf::CollectiveTime slowed_price(const Team& from, const Team& to, bool crosses) const {
    const perf::CollectiveTime& whole = crosses ? outside_ : inside_;
    if (!conditions_) return whole;
    double share = 1;
    for (const Team* team : {&from, &to})
      for (const int64_t device : team->devices) {
        const auto node = static_cast<size_t>(device / cluster_.gpus_per_node);
        share = std::min(share, crosses ? conditions_->scale_out_share[node]
                                        : conditions_->scale_up_share[static_cast<size_t>(device)]);
      }
    if (share == 1) return whole;
    spec::Cluster slow = cluster_;
    slow.scale_up.bandwidth *= share;
    slow.scale_out.nic_bandwidth *= share;
    return perf::point_to_point_time(slow, graph_.boundary_bytes, !crosses, 1);
  }

  const workload::WorkGraph& graph_;
  const spec::Cluster& cluster_;
  const Conditions* conditions_;
  LinkMap links_;
  perf::CollectiveTime inside_, outside_;
  std::vector<BytesPerSecond> capacities_;
};

}  // namespace

PricedBoundaries price_boundaries(const spec::Job& job, const workload::WorkGraph& graph,
                                  std::span<const Pipeline> pipelines,
                                  const Conditions* conditions) {
  return Pricer(job, graph, conditions).price(pipelines);
}

}  // namespace triplepoint::sim
