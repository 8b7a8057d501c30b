// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/dependency_graph.h"
#include "triplepoint/metrics/trace/span_list.h"

namespace triplepoint::metrics {

/// The dependency graph of a timeline that knows neither launches nor hosts, as simulated ones: a
/// node is made when it is asked for. Equal to build_dependency_graph(), with spans' numbers in
/// place of nodes', at a fiftieth of its memory.
class DeviceOrder {
 public:
  /// Whether the timeline is such a one.
  static bool holds(const run::Timeline&);
  DeviceOrder(const SpanList&, const CollectiveMatch&);

  /// That of the last end; -1: there is none.
  int32_t last_node() const { return last_; }
  Node node(int32_t span) const;
  Binding binding(int32_t span) const;
  const SyncPoint& sync_point(int32_t index) const { return sync_points_[as_size(index)]; }
  std::string_view label(const Node&) const;

 private:
  /// A stream of a rank.
  struct Lane {
    int32_t rank = 0;
    run::Stream stream = run::Stream::compute;
    std::vector<int32_t> spans;   // by (begin, -end)
    std::vector<int32_t> by_end;  // empty: they end in the order of `spans`
    // Before each of `spans`, the one that ends last; empty: the one before.
    std::vector<int32_t> before;
  };
  const Lane& lane_of(int32_t span) const;
  int32_t before_in_lane(int32_t span) const;
  int32_t last_of_others(int32_t span, int64_t time, int64_t after) const;
  bool is_node(int32_t span) const;
  void make_lanes();
  void order_by_end(Lane&) const;
  void add_sync_points(const CollectiveMatch&);

  const SpanList& spans_;
  int32_t last_ = -1;
  std::vector<Lane> lanes_;         // by rank and stream
  std::vector<size_t> first_lane_;  // of each rank, and the end
  std::vector<SyncPoint> sync_points_;
  std::vector<std::pair<int32_t, int32_t>> sync_of_span_;  // ascending
};

}  // namespace triplepoint::metrics
