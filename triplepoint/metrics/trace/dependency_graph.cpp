// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/dependency_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/span_list.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

/// A shorter stretch without a call is Python between two calls, not a wait for another thread.
constexpr int64_t shortest_wait = 50'000;  // ns

/// Nodes of some lanes in order of their ends, with the one that ended last before a time.
class Ends {
 public:
  void add(int64_t end, int32_t node, int32_t lane) { list_.push_back({end, node, lane}); }
  void sort() {
    std::ranges::sort(list_, [](const Entry& a, const Entry& b) {
      return std::pair(a.end, a.node) < std::pair(b.end, b.node);
    });
  }
  /// The node that ended last, not after `time`, later than `after`, in another lane than `lane`.
  int32_t last_before(int64_t time, int64_t after, int32_t lane) const {
    auto next = std::upper_bound(list_.begin(), list_.end(), time,
                                 [](int64_t t, const Entry& e) { return t < e.end; });
    while (next != list_.begin() && (next - 1)->end > after) {
      --next;
      if (next->lane != lane) return next->node;
    }
    return -1;
  }

 private:
  struct Entry {
    int64_t end = 0;
    int32_t node = 0, lane = 0;
  };
  std::vector<Entry> list_;
};

class Builder {
 public:
  Builder(const run::Timeline& timeline, const DependencyRules& rules)
      : timeline_(timeline),
        spans_(timeline),
        rules_(rules),
        device_of_span_(timeline.spans.size(), -1),
        host_of_span_(timeline.spans.size(), -1) {}

  DependencyGraph build() {
    add_device_nodes();
    add_host_nodes();
    for (auto* of_rank : {&device_ends_, &host_ends_})
      for (auto& [rank, ends] : *of_rank)
        ends.sort();
    add_launches();
    add_inferred();
    add_blocking();
    add_waiting_threads();
    add_sync_points();
    return std::move(graph_);
  }

 private:
  int32_t add_node(const Node& node, int32_t lane) {
    graph_.nodes.push_back(node);
    lane_of_node_.push_back(lane);
    return static_cast<int32_t>(graph_.nodes.size()) - 1;
  }
  const run::Span& span_of(const Node& node) const { return timeline_.spans[as_size(node.span)]; }

  void add_device_nodes() {
    for (const LaneOfSpans& lane : lanes_of(spans_, LaneKind::device)) {
      int32_t before = -1;
      for (int32_t index : lane.spans) {
        const run::Span& span = timeline_.spans[as_size(index)];
        Node node{.begin = span.begin.nanoseconds(),
                  .end = span.end.nanoseconds(),
                  .rank = span.rank,
                  .span = index};
        if (node.begin >= node.end) continue;
        if (before >= 0 && graph_.nodes[as_size(before)].end <= node.begin) node.lane = before;
        const int32_t place = add_node(node, lanes_);
        device_of_span_[as_size(index)] = place;
        device_ends_[span.rank].add(node.end, place, lanes_);
        if (before < 0 || graph_.nodes[as_size(before)].end <= node.end) before = place;
      }
      ++lanes_;
    }
  }

  void add_host_nodes() {
    for (const LaneOfSpans& lane : lanes_of(spans_, LaneKind::host)) {
      int32_t before = -1;
      std::vector<HostSegment> segments = innermost_spans(spans_, lane);
      for (const HostSegment& segment : segments) {
        const int32_t place = add_node({.begin = segment.begin,
                                        .end = segment.end,
                                        .rank = lane.rank,
                                        .span = segment.span,
                                        .on_host = true,
                                        .lane = before},
                                       lanes_);
        int32_t& of_span = host_of_span_[as_size(segment.span)];
        if (of_span < 0) of_span = place;
        host_ends_[lane.rank].add(segment.end, place, lanes_);
        before = place;
      }
      host_lanes_.push_back({lane.rank, lanes_, std::move(segments)});
      ++lanes_;
    }
  }

  void add_launches() {
    const std::vector<int32_t> launches = launches_of(timeline_);
    for (Node& node : graph_.nodes) {
      const int32_t call = launches[as_size(node.span)];
      if (node.on_host || call < 0) continue;
      const int32_t host = host_of_span_[as_size(call)];
      if (host >= 0 && graph_.nodes[as_size(host)].begin <= node.begin) node.launch = host;
    }
  }

  void add_inferred() {
    const bool is_profiled = !timeline_.details.empty();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      const Binding certain = binding_of(graph_, node);
      if (certain.time >= node.begin) continue;
      const bool is_near = certain.time > node.begin - rules_.stream_gap;
      const int64_t after = node.on_host || !is_profiled || is_near
                                ? certain.time
                                : node.begin - rules_.stream_gap - 1;
      const Ends& ends = node.on_host ? host_ends_[node.rank] : device_ends_[node.rank];
      node.other = ends.last_before(node.begin, after, lane_of_node_[i]);
    }
  }

  void add_blocking() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (node.on_host &&
          type_of(timeline_, span_of(node)).name.find("Synchronize") != std::string::npos)
        node.blocked_on = device_ends_[node.rank].last_before(node.end, node.begin, -1);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& copy = graph_.nodes[i];
      if (copy.on_host || copy.launch < 0) continue;
      if (type_of(timeline_, span_of(copy)).kind != run::SpanKind::copy) continue;
      Node& call = graph_.nodes[as_size(copy.launch)];
      if (copy.end <= call.end) call.blocked_on = static_cast<int32_t>(i);
    }
  }

  /// Nanoseconds of the node's time that other threads of its rank spend in calls.
  int64_t others_at_work(const Node& node, int32_t own_lane) const {
    int64_t busy = 0;
    for (const auto& [rank, lane, segments] : host_lanes_) {
      if (rank != node.rank || lane == own_lane) continue;
      auto next = std::upper_bound(segments.begin(), segments.end(), node.begin,
                                   [](int64_t t, const HostSegment& s) { return t < s.end; });
      for (; next != segments.end() && next->begin < node.end; ++next)
        busy += std::min(next->end, node.end) - std::max(next->begin, node.begin);
    }
    return busy;
  }

  void add_waiting_threads() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      const bool calls_driver =
          timeline_.details.empty() || timeline_.details[as_size(node.span)].correlation >= 0;
      if (!node.on_host || node.blocked_on >= 0 || calls_driver ||
          node.end - node.begin < shortest_wait)
        continue;
      if (2 * others_at_work(node, lane_of_node_[i]) < node.end - node.begin) continue;
      node.blocked_on =
          host_ends_[node.rank].last_before(node.end - 1, node.begin, lane_of_node_[i]);
    }
  }

  void add_sync_points() {
    for (const Collective& collective : match_collectives(spans_).collectives) {
      if (!collective.across_ranks()) continue;
      SyncPoint sync_point{.arrival = collective.last_begin()};
      for (const CollectivePart& part : collective.parts) {
        const int32_t node = device_of_span_[as_size(part.span)];
        if (node < 0 || part.end <= sync_point.arrival) break;
        sync_point.nodes.push_back(node);
        if (part.rank == collective.last_starter()) sync_point.last = node;
      }
      // Clocks that differ by more than the transfer cannot say who waited for whom.
      if (sync_point.nodes.size() < collective.parts.size()) continue;
      for (int32_t node : sync_point.nodes)
        graph_.nodes[as_size(node)].sync_point = static_cast<int32_t>(graph_.sync_points.size());
      graph_.sync_points.push_back(std::move(sync_point));
    }
  }

  const run::Timeline& timeline_;
  SpanList spans_;
  DependencyRules rules_;
  DependencyGraph graph_;
  int32_t lanes_ = 0;
  std::vector<int32_t> lane_of_node_, device_of_span_, host_of_span_;
  std::map<int32_t, Ends> device_ends_, host_ends_;
  struct HostLane {
    int32_t rank = 0, lane = 0;
    std::vector<HostSegment> segments;
  };
  std::vector<HostLane> host_lanes_;
};

}  // namespace

DependencyGraph build_dependency_graph(const run::Timeline& timeline,
                                       const DependencyRules& rules) {
  return Builder(timeline, rules).build();
}

int64_t launched_at(const Node& call, const Node& kernel) {
  return std::min(call.end, kernel.begin);
}

Binding binding_of(const DependencyGraph& graph, const Node& node) {
  Binding latest;
  const auto consider = [&](Reason reason, int32_t before) {
    if (before < 0) return;
    const Node& one = graph.nodes[as_size(before)];
    const int64_t time = reason == Reason::launch ? launched_at(one, node) : one.end;
    if (time > latest.time) latest = {reason, before, time};
  };
  consider(Reason::lane, node.lane);
  consider(Reason::launch, node.launch);
  consider(Reason::other, node.other);
  return latest;
}

}  // namespace triplepoint::metrics
