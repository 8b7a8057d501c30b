// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/critical_path.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/kernel_class.h"
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
    std::sort(list_.begin(), list_.end(), [](const Entry& a, const Entry& b) {
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
  const run::Span& span_of(const Node& node) const {
    return timeline_.spans[static_cast<size_t>(node.span)];
  }

  void add_device_nodes() {
    for (const LaneOfSpans& lane : lanes_of(timeline_, LaneKind::device)) {
      int32_t before = -1;
      for (int32_t index : lane.spans) {
        const run::Span& span = timeline_.spans[static_cast<size_t>(index)];
        Node node{.begin = span.begin.nanoseconds(),
                  .end = span.end.nanoseconds(),
                  .rank = span.rank,
                  .span = index};
        if (node.begin >= node.end) continue;
        if (before >= 0 && graph_.nodes[static_cast<size_t>(before)].end <= node.begin)
          node.lane = before;
        const int32_t place = add_node(node, lanes_);
        device_of_span_[static_cast<size_t>(index)] = place;
        device_ends_[span.rank].add(node.end, place, lanes_);
        if (before < 0 || graph_.nodes[static_cast<size_t>(before)].end <= node.end) before = place;
      }
      ++lanes_;
    }
  }

  void add_host_nodes() {
    for (const LaneOfSpans& lane : lanes_of(timeline_, LaneKind::host)) {
      int32_t before = -1;
      std::vector<HostSegment> segments = innermost_spans(timeline_, lane);
      for (const HostSegment& segment : segments) {
        const int32_t place = add_node({.begin = segment.begin,
                                        .end = segment.end,
                                        .rank = lane.rank,
                                        .span = segment.span,
                                        .on_host = true,
                                        .lane = before},
                                       lanes_);
        int32_t& of_span = host_of_span_[static_cast<size_t>(segment.span)];
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
      const int32_t call = launches[static_cast<size_t>(node.span)];
      if (node.on_host || call < 0) continue;
      const int32_t host = host_of_span_[static_cast<size_t>(call)];
      if (host >= 0 && graph_.nodes[static_cast<size_t>(host)].begin <= node.begin)
        node.launch = host;
    }
  }

  void add_inferred() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      const Binding certain = binding_of(graph_, node);
      if (certain.time >= node.begin) continue;
      const int64_t after = node.on_host || certain.time > node.begin - rules_.stream_gap
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
      Node& call = graph_.nodes[static_cast<size_t>(copy.launch)];
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
      const bool calls_driver = timeline_.details.empty() ||
                                timeline_.details[static_cast<size_t>(node.span)].correlation >= 0;
      if (!node.on_host || node.blocked_on >= 0 || calls_driver ||
          node.end - node.begin < shortest_wait)
        continue;
      if (2 * others_at_work(node, lane_of_node_[i]) < node.end - node.begin) continue;
      node.blocked_on =
          host_ends_[node.rank].last_before(node.end - 1, node.begin, lane_of_node_[i]);
    }
  }

  void add_sync_points() {
    for (const Collective& collective : match_collectives(timeline_).collectives) {
      if (!collective.across_ranks()) continue;
      SyncPoint sync_point{.arrival = collective.last_begin()};
      for (const CollectivePart& part : collective.parts) {
        const int32_t node = device_of_span_[static_cast<size_t>(part.span)];
        if (node < 0 || part.end <= sync_point.arrival) break;
        sync_point.nodes.push_back(node);
        if (part.rank == collective.last_starter()) sync_point.last = node;
      }
      // Clocks that differ by more than the transfer cannot say who waited for whom.
      if (sync_point.nodes.size() < collective.parts.size()) continue;
      for (int32_t node : sync_point.nodes)
        graph_.nodes[static_cast<size_t>(node)].sync_point =
            static_cast<int32_t>(graph_.sync_points.size());
      graph_.sync_points.push_back(std::move(sync_point));
    }
  }

  const run::Timeline& timeline_;
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
    const Node& one = graph.nodes[static_cast<size_t>(before)];
    const int64_t time = reason == Reason::launch ? launched_at(one, node) : one.end;
    if (time > latest.time) latest = {reason, before, time};
  };
  consider(Reason::lane, node.lane);
  consider(Reason::launch, node.launch);
  consider(Reason::other, node.other);
  return latest;
}

namespace {

std::string_view delay_label(Reason reason, bool on_host) {
  if (reason == Reason::launch) return launch_delay;
  if (reason == Reason::other) return on_host ? wake_up : cross_stream_delay;
  return on_host ? untraced_host : stream_delay;
}

std::string_view label_of_node(const run::Timeline& timeline, const Node& node) {
  return label_of(type_of(timeline, timeline.spans[static_cast<size_t>(node.span)]));
}

class Walker {
 public:
  Walker(const run::Timeline& timeline, const DependencyGraph& graph)
      : timeline_(timeline), graph_(graph) {}

  std::vector<PathPiece> walk() {
    int32_t node = last_node();
    int64_t time = node < 0 ? 0 : at(node).end;
    while (node >= 0)
      std::tie(node, time) = step(node, time);
    std::reverse(pieces_.begin(), pieces_.end());
    return std::move(pieces_);
  }

 private:
  const Node& at(int32_t node) const { return graph_.nodes[static_cast<size_t>(node)]; }

  int32_t last_node() const {
    int32_t last = -1;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const auto rank_of = [](const Node& n) { return std::pair(!n.on_host, n.end); };
      if (last < 0 || rank_of(node) > rank_of(at(last))) last = static_cast<int32_t>(i);
    }
    return last;
  }

  /// The path so far begins at `time`, in the node or at its begin; says where it goes on.
  std::pair<int32_t, int64_t> step(int32_t place, int64_t time) {
    const Node& node = at(place);
    if (time > node.begin) {
      if (node.sync_point >= 0) {
        const SyncPoint& sync_point = graph_.sync_points[static_cast<size_t>(node.sync_point)];
        add(sync_point.arrival, time, node, label_of_node(timeline_, node));
        return {sync_point.last, at(sync_point.last).begin};
      }
      if (node.blocked_on >= 0 && time == node.end) {
        add(at(node.blocked_on).end, time, node, label_of_node(timeline_, node));
        return {node.blocked_on, at(node.blocked_on).end};
      }
      add(node.begin, time, node, label_of_node(timeline_, node));
    }
    const Binding before = binding_of(graph_, node);
    if (before.node < 0) return {-1, 0};
    add(before.time, node.begin, node, delay_label(before.reason, node.on_host));
    return {before.node, before.time};
  }

  void add(int64_t begin, int64_t end, const Node& node, std::string_view label) {
    if (begin < end) pieces_.push_back({begin, end, node.rank, label, node.span});
  }

  const run::Timeline& timeline_;
  const DependencyGraph& graph_;
  std::vector<PathPiece> pieces_;
};

/// Simulates the graph again, event by event in the old order of time.
class Player {
 public:
  Player(const run::Timeline& timeline, const DependencyGraph& graph)
      : timeline_(timeline), graph_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const auto place = static_cast<int32_t>(i);
      // At one time: ends, device before host; then begins, host before device.
      events_.push_back({node.end, node.on_host ? 1 : 0, place});
      events_.push_back({node.begin, node.on_host ? 2 : 3, place});
    }
    std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tuple(a.time, a.order, a.node) < std::tuple(b.time, b.order, b.node);
    });
  }

  int64_t play(std::string_view free) {
    free_ = free;
    begin_.assign(graph_.nodes.size(), 0);
    end_.assign(graph_.nodes.size(), 0);
    int64_t last_device = INT64_MIN, last_host = INT64_MIN;
    for (const Event& event : events_) {
      const auto i = static_cast<size_t>(event.node);
      if (event.order >= 2) {
        begin_[i] = new_begin(graph_.nodes[i]);
        continue;
      }
      end_[i] = new_end(i);
      int64_t& last = graph_.nodes[i].on_host ? last_host : last_device;
      last = std::max(last, end_[i]);
    }
    if (graph_.nodes.empty()) return 0;
    return last_device == INT64_MIN ? last_host : last_device;
  }

 private:
  struct Event {
    int64_t time = 0;
    int order = 0;
    int32_t node = 0;
  };

  int64_t unless_free(int64_t duration, std::string_view label) const {
    return label == free_ ? 0 : duration;
  }

  int64_t new_begin(const Node& node) const {
    const Binding before = binding_of(graph_, node);
    if (before.node < 0) return node.begin;
    int64_t latest = INT64_MIN;
    if (node.lane >= 0) latest = std::max(latest, end_[static_cast<size_t>(node.lane)]);
    if (node.launch >= 0) latest = std::max(latest, new_launch(node));
    if (node.other >= 0) latest = std::max(latest, end_[static_cast<size_t>(node.other)]);
    return latest + unless_free(node.begin - before.time, delay_label(before.reason, node.on_host));
  }

  int64_t new_launch(const Node& kernel) const {
    const Node& call = graph_.nodes[static_cast<size_t>(kernel.launch)];
    return begin_[static_cast<size_t>(kernel.launch)] +
           unless_free(launched_at(call, kernel) - call.begin, label_of_node(timeline_, call));
  }

  int64_t new_end(size_t i) const {
    const Node& node = graph_.nodes[i];
    const std::string_view label = label_of_node(timeline_, node);
    if (node.sync_point >= 0) {
      const SyncPoint& sync_point = graph_.sync_points[static_cast<size_t>(node.sync_point)];
      int64_t arrival = INT64_MIN;
      for (int32_t other : sync_point.nodes)
        arrival = std::max(arrival, begin_[static_cast<size_t>(other)]);
      return arrival + unless_free(node.end - sync_point.arrival, label);
    }
    if (node.blocked_on >= 0) {
      const int64_t until = graph_.nodes[static_cast<size_t>(node.blocked_on)].end;
      return std::max(begin_[i], end_[static_cast<size_t>(node.blocked_on)]) +
             unless_free(node.end - until, label);
    }
    return begin_[i] + unless_free(node.end - node.begin, label);
  }

  const run::Timeline& timeline_;
  const DependencyGraph& graph_;
  std::vector<Event> events_;
  std::string_view free_;
  std::vector<int64_t> begin_, end_;
};

void add_shares(const run::Timeline& timeline, CriticalPath& path) {
  std::map<std::string_view, PathShare> labels;
  std::map<int32_t, PathSpanShare> types;
  std::map<int32_t, PathRankShare> ranks;
  for (const PathPiece& piece : path.pieces) {
    const int64_t length = piece.end - piece.begin;
    PathShare& share = labels[piece.label];
    share.label = piece.label;
    share.on_path += length;
    ++share.pieces;
    ranks[piece.rank].rank = piece.rank;
    ranks[piece.rank].on_path += length;
    const int32_t type = timeline.spans[static_cast<size_t>(piece.span)].type;
    if (label_of(timeline.types[static_cast<size_t>(type)]) != piece.label) continue;
    types[type].type = type;
    types[type].on_path += length;
    ++types[type].pieces;
  }
  for (const auto& [label, share] : labels)
    path.shares.push_back(share);
  for (const auto& [type, share] : types)
    path.kernels.push_back(share);
  for (const auto& [rank, share] : ranks)
    path.ranks.push_back(share);
  const auto longest = [](const auto& a, const auto& b) { return a.on_path > b.on_path; };
  std::stable_sort(path.shares.begin(), path.shares.end(), longest);
  std::stable_sort(path.kernels.begin(), path.kernels.end(), longest);
}

int64_t not_followed(const run::Timeline& timeline, const CriticalPath& path) {
  int64_t first = path.begin;
  for (const run::Span& span : timeline.spans)
    if (span.rank == path.pieces.front().rank) first = std::min(first, span.begin.nanoseconds());
  return path.begin - first;
}

}  // namespace

int64_t play_without(const run::Timeline& timeline, const DependencyGraph& graph,
                     std::string_view label) {
  return Player(timeline, graph).play(label);
}

CriticalPath critical_path(const run::Timeline& timeline, const DependencyRules& rules) {
  const DependencyGraph graph = build_dependency_graph(timeline, rules);
  CriticalPath path{.pieces = Walker(timeline, graph).walk()};
  if (path.pieces.empty()) return path;
  path.begin = path.pieces.front().begin;
  path.end = path.pieces.back().end;
  path.not_followed = not_followed(timeline, path);
  add_shares(timeline, path);
  Player player(timeline, graph);
  for (PathShare& share : path.shares)
    share.saved_if_free = path.end - player.play(share.label);
  return path;
}

}  // namespace triplepoint::metrics
