// SPDX-License-Identifier: Apache-2.0
// Which links can ever bind, decided once per job.
//
// Solving max-min rates at every begin and end of a send is what makes a step with shared links
// expensive, and most jobs do not need it: their NICs carry all that their stages can push at once.
// So links that cannot bind are dropped first, then of links with the same users all but the
// tightest, and what is left joins pipelines into clusters. A cluster without links is scheduled by
// dependencies alone. Sends that load the same links in the same way form a class with one rate,
// because the number of classes, not of sends, sets the cost of a solution.
//
// The criterion is conservative: it assumes that all senders push at the same moment at the rate
// they have alone. A link that passes it cannot bind at any moment of any schedule, so dropping it
// changes no bit. A link that fails it may still never bind; then events are simulated for nothing,
// and the result is the same (tests compare both, FlowChoice::everywhere).
//
// Cost: about O(uses log uses), for sorting, once per job and per change of links. Rates are in
// bytes/s.
#include "triplepoint/sim/wiring.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "triplepoint/base/result.h"

namespace triplepoint::sim {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-9;  // far above rounding errors, far below measurable differences

/// A boundary's use of a link. Senders are stages: a blocking one uses one boundary at a time.
struct Use {
  int64_t boundary = 0;  // counted over all pipelines, two per stage
  int32_t ranks = 0;
  double rate = 0;  // of one rank, alone
  int64_t sender() const { return boundary / 2; }
  friend bool operator==(const Use&, const Use&) = default;
};
using LinkUsers = std::vector<std::vector<Use>>;  // [link], ascending boundaries

/// Several entries for one link become one.
std::vector<LinkUse> merged(std::vector<LinkUse> uses) {
  std::ranges::sort(uses);
  std::vector<LinkUse> sums;
  for (const LinkUse& use : uses) {
    TPT_EXPECT(use.ranks > 0);
    if (!sums.empty() && sums.back().link == use.link)
      sums.back().ranks += use.ranks;
    else
      sums.push_back(use);
  }
  return sums;
}

double own_rate(const Boundary& boundary) {
  if (boundary.transfer == Seconds()) return unlimited;
  return (boundary.bytes_per_rank / boundary.transfer).in_base_units();
}

/// The fastest that the links let the lockstep group send, if it has them to itself.
double link_rate(std::span<const LinkUse> uses, std::span<const BytesPerSecond> capacities) {
  double rate = unlimited;
  for (const LinkUse& use : uses)
    rate = std::min(rate, capacities[as_size(use.link)].in_base_units() / use.ranks);
  return rate;
}

class Builder {
 public:
  Builder(std::span<const BytesPerSecond> capacities, SendMode mode, FlowChoice choice)
      : capacities_(capacities), mode_(mode), choice_(choice), users_(capacities.size()) {}

  Wire add(const Boundary& boundary) {
    const int64_t index = static_cast<int64_t>(uses_.size());
    uses_.push_back(merged(boundary.links));
    const double bytes = boundary.bytes_per_rank.in_base_units();
    // A group whose ranks share one NIC is slower than one rank alone even without other senders.
    // That is no contention between flows but the group's own rate, and it belongs into `alone`;
    // the tolerance keeps the exact transfer time where both are equal but for rounding.
    const double own = own_rate(boundary), links = link_rate(uses_.back(), capacities_);
    const bool linked_down = links < own * (1 - rounding);
    const double rate = linked_down ? links : own;
    rates_.push_back(rate);
    if (bytes > 0 && rate < unlimited)
      for (const LinkUse& use : uses_.back())
        users_[as_size(use.link)].push_back({index, use.ranks, rate});
    else
      uses_.back().clear();
    const Seconds data = linked_down ? bytes / rate * unit::s : boundary.transfer;
    return {.latency = boundary.latency,
            .alone = boundary.latency + data,
            .bytes = bytes,
            .microbatches = boundary.microbatches};
  }

  /// Links that can bind, one of those with equal users; renumbered.
  std::vector<BytesPerSecond> choose_links() {
    std::vector<size_t> kept;
    for (size_t l = 0; l < users_.size(); ++l)
      if (!users_[l].empty() && (choice_ == FlowChoice::everywhere || can_bind(l)))
        kept.push_back(l);
    // Links with equal users (a NIC and the uplink behind it) fill together, so the tighter one
    // always stops first. This keeps the max-min problems small.
    if (choice_ == FlowChoice::where_links_bind) drop_looser_twins(kept);
    new_index_.assign(users_.size(), -1);
    std::vector<BytesPerSecond> capacities;
    for (const size_t l : kept) {
      new_index_[l] = static_cast<int32_t>(capacities.size());
      capacities.push_back(capacities_[l]);
    }
    return capacities;
  }

  /// Empty: a boundary that no link can slow down.
  FlowClass class_of(size_t boundary) const {
    FlowClass flows{.limit = rates_[boundary]};
    for (const LinkUse& use : uses_[boundary]) {
      const int32_t link = new_index_[as_size(use.link)];
      if (link >= 0) flows.links.push_back({link, use.ranks});
    }
    return flows;
  }

 private:
  /// Users are in ascending order of boundaries, two per stage, so both directions of one sender
  /// stand beside each other. A blocking stage sends one of them at a time: of the pair the larger
  /// counts.
  bool can_bind(size_t link) const {
    double load = 0;
    const std::vector<Use>& users = users_[link];
    for (size_t u = 0; u < users.size(); ++u) {
      const double push = users[u].ranks * users[u].rate;
      const bool same_sender = u > 0 && users[u - 1].sender() == users[u].sender();
      if (mode_ == SendMode::blocking && same_sender)
        load += std::max(0.0, push - users[u - 1].ranks * users[u - 1].rate);
      else
        load += push;
    }
    // n equal messages that just fill a link sum up to its capacity but for rounding.
    return load > capacities_[link].in_base_units() * (1 + rounding);
  }

  /// Order of links with equal users: tightest first, then as numbered.
  bool before(size_t a, size_t b) const {
    const auto by_use = [](const Use& x, const Use& y) {
      return std::pair(x.boundary, x.ranks) < std::pair(y.boundary, y.ranks);
    };
    const auto& left = users_[a];
    const auto& right = users_[b];
    if (left != right)
      return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(),
                                          by_use);
    return std::pair(capacities_[a], a) < std::pair(capacities_[b], b);
  }

  void drop_looser_twins(std::vector<size_t>& kept) const {
    std::ranges::sort(kept, [&](size_t a, size_t b) { return before(a, b); });
    const auto twins = [&](size_t a, size_t b) { return users_[a] == users_[b]; };
    kept.erase(std::unique(kept.begin(), kept.end(), twins), kept.end());
    std::ranges::sort(kept);
  }

  std::span<const BytesPerSecond> capacities_;
  SendMode mode_;
  FlowChoice choice_;
  std::vector<std::vector<LinkUse>> uses_;  // [boundary]
  std::vector<double> rates_;               // [boundary]
  LinkUsers users_;
  std::vector<int32_t> new_index_;
};

/// The distinct classes, in an order that does not depend on that of the pipelines; tells each wire
/// its own.
/// Sorted by content: the numbers, and with them the order of sums in flow_simulation.cpp, are the
/// same however pipelines are numbered.
std::vector<FlowClass> number_classes(const Builder& builder,
                                      std::vector<std::vector<Wire>>& wires) {
  std::vector<FlowClass> flows;  // [boundary]
  for (const std::vector<Wire>& of_pipeline : wires)
    for (size_t w = 0; w < of_pipeline.size(); ++w)
      flows.push_back(builder.class_of(flows.size()));
  std::vector<FlowClass> classes = flows;
  std::erase_if(classes, [](const FlowClass& flow) { return flow.links.empty(); });
  std::ranges::sort(classes);
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  auto flow = flows.begin();
  for (std::vector<Wire>& of_pipeline : wires)
    for (Wire& wire : of_pipeline) {
      const auto at = std::lower_bound(classes.begin(), classes.end(), *flow);
      if (!flow->links.empty()) wire.flow_class = static_cast<int32_t>(at - classes.begin());
      ++flow;
    }
  return classes;
}

/// Sets of pipelines, joined by the links they share.
class Groups {
 public:
  explicit Groups(size_t n) : leader_(n) { std::iota(leader_.begin(), leader_.end(), size_t{0}); }
  size_t leader(size_t i) {
    while (leader_[i] != i)
      i = leader_[i] = leader_[leader_[i]];
    return i;
  }
  void join(size_t a, size_t b) {
    a = leader(a);
    b = leader(b);
    // The lower index leads, so that clusters come out in the order of their first member.
    leader_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> leader_;
};

std::vector<Wiring::Cluster> form_clusters(const std::vector<std::vector<Wire>>& wires,
                                           const std::vector<FlowClass>& classes,
                                           size_t num_links) {
  Groups groups(wires.size());
  std::vector<char> has_flows(wires.size(), 0);
  std::vector<size_t> first_user(num_links, wires.size());
  for (size_t p = 0; p < wires.size(); ++p)
    for (const Wire& wire : wires[p]) {
      if (wire.flow_class == Wire::no_flow) continue;
      has_flows[p] = 1;
      for (const LinkUse& use : classes[as_size(wire.flow_class)].links) {
        size_t& first = first_user[as_size(use.link)];
        // Joining with the first user alone is enough: all users of a link end in one set.
        if (first == wires.size()) first = p;
        groups.join(first, p);
      }
    }
  std::vector<Wiring::Cluster> clusters;
  std::vector<size_t> cluster_of(wires.size());
  for (size_t p = 0; p < wires.size(); ++p) {
    const size_t leader = groups.leader(p);  // the lowest of its group
    if (leader == p) {
      cluster_of[p] = clusters.size();
      clusters.push_back({.has_flows = has_flows[p] != 0});
    }
    clusters[cluster_of[leader]].pipelines.push_back(p);
  }
  return clusters;
}

}  // namespace

Wiring::Wiring(std::span<const std::vector<StageBoundaries>> pipelines,
               std::span<const BytesPerSecond> capacities, SendMode mode, FlowChoice choice)
    : mode_(mode) {
  for (const BytesPerSecond capacity : capacities)
    TPT_EXPECT(capacity > BytesPerSecond());
  Builder builder(capacities, mode, choice);
  const Boundary none;
  for (const std::vector<StageBoundaries>& stages : pipelines) {
    const bool alone = stages.size() == 1;  // chunks of one stage hand over in place
    std::vector<Wire>& wires = wires_.emplace_back();
    for (const StageBoundaries& stage : stages) {
      wires.push_back(builder.add(alone ? none : stage.next));
      wires.push_back(builder.add(alone ? none : stage.previous));
    }
  }
  capacities_ = builder.choose_links();
  classes_ = number_classes(builder, wires_);
  clusters_ = form_clusters(wires_, classes_, capacities_.size());
}

}  // namespace triplepoint::sim
