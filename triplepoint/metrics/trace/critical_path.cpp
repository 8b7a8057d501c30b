// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/critical_path.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/metrics/trace/device_order.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

std::string_view delay_label(Reason reason, bool on_host) {
  if (reason == Reason::launch) return launch_delay;
  if (reason == Reason::other) return on_host ? wake_up : cross_stream_delay;
  return on_host ? untraced_host : stream_delay;
}

std::string_view label_of_node(const run::Timeline& timeline, const Node& node) {
  return label_of(type_of(timeline, timeline.spans[as_size(node.span)]));
}

/// A graph with all its nodes, as the walker asks it.
class WholeGraph {
 public:
  WholeGraph(const run::Timeline& timeline, const DependencyGraph& graph)
      : timeline_(timeline), graph_(graph) {}

  int32_t last_node() const {
    int32_t last = -1;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto rank_of = [](const Node& n) { return std::pair(!n.on_host, n.end); };
      if (last < 0 || rank_of(graph_.nodes[i]) > rank_of(node(last)))
        last = static_cast<int32_t>(i);
    }
    return last;
  }
  const Node& node(int32_t node) const { return graph_.nodes[as_size(node)]; }
  Binding binding(int32_t node) const { return binding_of(graph_, this->node(node)); }
  const SyncPoint& sync_point(int32_t index) const { return graph_.sync_points[as_size(index)]; }
  std::string_view label(const Node& node) const { return label_of_node(timeline_, node); }

 private:
  const run::Timeline& timeline_;
  const DependencyGraph& graph_;
};

/// Graph: WholeGraph or DeviceOrder.
template <class Graph>
class Walker {
 public:
  explicit Walker(const Graph& graph) : graph_(graph) {}

  std::vector<PathPiece> walk() {
    int32_t node = graph_.last_node();
    int64_t time = node < 0 ? 0 : graph_.node(node).end;
    while (node >= 0)
      std::tie(node, time) = step(node, time);
    std::ranges::reverse(pieces_);
    return std::move(pieces_);
  }

 private:
  /// The path so far begins at `time`, in the node or at its begin; says where it goes on.
  std::pair<int32_t, int64_t> step(int32_t place, int64_t time) {
    const Node node = graph_.node(place);
    if (time > node.begin) {
      if (node.sync_point >= 0) {
        const SyncPoint& sync_point = graph_.sync_point(node.sync_point);
        add(sync_point.arrival, time, node, graph_.label(node));
        return {sync_point.last, graph_.node(sync_point.last).begin};
      }
      if (node.blocked_on >= 0 && time == node.end) {
        const int64_t until = graph_.node(node.blocked_on).end;
        add(until, time, node, graph_.label(node));
        return {node.blocked_on, until};
      }
      add(node.begin, time, node, graph_.label(node));
    }
    const Binding before = graph_.binding(place);
    if (before.node < 0) return {-1, 0};
    add(before.time, node.begin, node, delay_label(before.reason, node.on_host));
    return {before.node, before.time};
  }

  void add(int64_t begin, int64_t end, const Node& node, std::string_view label) {
    if (begin < end) pieces_.push_back({begin, end, node.rank, label, node.span});
  }

  const Graph& graph_;
  std::vector<PathPiece> pieces_;
};

/// Simulates the graph again, event by event in the old order of time.
class DependencyReplay {
 public:
  DependencyReplay(const run::Timeline& timeline, const DependencyGraph& graph)
      : timeline_(timeline), graph_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const auto place = static_cast<int32_t>(i);
      // At one time: ends, device before host; then begins, host before device.
      events_.push_back({node.end, node.on_host ? 1 : 0, place});
      events_.push_back({node.begin, node.on_host ? 2 : 3, place});
    }
    std::ranges::sort(events_, [](const Event& a, const Event& b) {
      return std::tuple(a.time, a.order, a.node) < std::tuple(b.time, b.order, b.node);
    });
  }

  int64_t run(std::string_view free) {
    free_ = free;
    begin_.assign(graph_.nodes.size(), 0);
    end_.assign(graph_.nodes.size(), 0);
    int64_t last_device = INT64_MIN, last_host = INT64_MIN;
    for (const Event& event : events_) {
      const auto i = as_size(event.node);
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
    if (node.lane >= 0) latest = std::max(latest, end_[as_size(node.lane)]);
    if (node.launch >= 0) latest = std::max(latest, new_launch(node));
    if (node.other >= 0) latest = std::max(latest, end_[as_size(node.other)]);
    return latest + unless_free(node.begin - before.time, delay_label(before.reason, node.on_host));
  }

  int64_t new_launch(const Node& kernel) const {
    const Node& call = graph_.nodes[as_size(kernel.launch)];
    return begin_[as_size(kernel.launch)] +
           unless_free(launched_at(call, kernel) - call.begin, label_of_node(timeline_, call));
  }

  int64_t new_end(size_t i) const {
    const Node& node = graph_.nodes[i];
    const std::string_view label = label_of_node(timeline_, node);
    if (node.sync_point >= 0) {
      const SyncPoint& sync_point = graph_.sync_points[as_size(node.sync_point)];
      int64_t arrival = INT64_MIN;
      for (int32_t other : sync_point.nodes)
        arrival = std::max(arrival, begin_[as_size(other)]);
      return arrival + unless_free(node.end - sync_point.arrival, label);
    }
    if (node.blocked_on >= 0) {
      const int64_t until = graph_.nodes[as_size(node.blocked_on)].end;
      return std::max(begin_[i], end_[as_size(node.blocked_on)]) +
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

/// type_of_span: of the span with this number, as index into the types.
template <class TypeOf>
void add_shares(const std::vector<run::SpanType>& all_types, const TypeOf& type_of_span,
                CriticalPath& path) {
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
    const int32_t type = type_of_span(piece.span);
    if (label_of(all_types[as_size(type)]) != piece.label) continue;
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
  std::ranges::stable_sort(path.shares, longest);
  std::ranges::stable_sort(path.kernels, longest);
}

/// What is the same of every graph: of a path whose pieces are known. `first`: the first begin on
/// the rank of the first piece.
void finish(CriticalPath& path, int64_t first) {
  path.begin = path.pieces.front().begin;
  path.end = path.pieces.back().end;
  path.not_followed = std::max<int64_t>(0, path.begin - first);
}

}  // namespace

int64_t critical_path_without(const run::Timeline& timeline, const DependencyGraph& graph,
                              std::string_view label) {
  return DependencyReplay(timeline, graph).run(label);
}

CriticalPath critical_path(const run::Timeline& timeline, const DependencyRules& rules) {
  const DependencyGraph graph = build_dependency_graph(timeline, rules);
  CriticalPath path{.pieces = Walker(WholeGraph(timeline, graph)).walk()};
  if (path.pieces.empty()) return path;
  const auto own = run::detail::items_of_rank(timeline.spans, path.pieces.front().rank);
  finish(path, own.first->begin.nanoseconds());
  add_shares(
      timeline.types, [&](int32_t i) { return timeline.spans[as_size(i)].type; }, path);
  DependencyReplay replay(timeline, graph);
  for (PathShare& share : path.shares)
    share.saved_if_free = path.end - replay.run(share.label);
  return path;
}

CriticalPath critical_path(const SpanList& spans, const CollectiveMatch& match) {
  const DeviceOrder order(spans, match);
  CriticalPath path{.pieces = Walker(order).walk()};
  if (path.pieces.empty()) return path;
  finish(path, spans.begin(spans.of_rank(path.pieces.front().rank).first));
  add_shares(
      spans.timeline().types, [&](int32_t i) { return spans.work(i).type; }, path);
  return path;
}

}  // namespace triplepoint::metrics
