// SPDX-License-Identifier: Apache-2.0
// A forest connects ranks and collectives. Each further edge closes a circle with the path between
// its ends in the forest, and whatever lies on a circle is one set. Collectives of the same ranks
// count twice at most: the second one closes all circles that a third could.
//
// Cost: in the number of different groups of ranks, not of collectives, after one sort of these.
#include "triplepoint/metrics/trace/clock_sets.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace triplepoint::metrics {
namespace {

/// Vertices that belong together; each set is known by one of them.
class Sets {
 public:
  explicit Sets(size_t vertices) : parent_(vertices) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t of(size_t vertex) {
    while (parent_[vertex] != vertex)
      vertex = parent_[vertex] = parent_[parent_[vertex]];
    return vertex;
  }
  void join(size_t vertex, size_t into) { parent_[of(vertex)] = of(into); }

 private:
  std::vector<size_t> parent_;
};

class Circles {
 public:
  explicit Circles(size_t vertices)
      : connected_(vertices),
        circles_(vertices),
        tree_(vertices),
        above_(vertices),
        depth_(vertices, -1) {}

  void add_edge(size_t a, size_t b) {
    if (connected_.of(a) == connected_.of(b)) {
      further_.emplace_back(a, b);
      return;
    }
    connected_.join(a, b);
    tree_[a].push_back(b);
    tree_[b].push_back(a);
  }

  /// After the last edge: of each vertex, one of its set.
  std::vector<size_t> find() {
    for (size_t root = 0; root < depth_.size(); ++root)
      if (depth_[root] < 0) hang_from(root);
    for (const auto& [a, b] : further_)
      close(circles_.of(a), circles_.of(b));
    std::vector<size_t> sets;
    for (size_t vertex = 0; vertex < depth_.size(); ++vertex)
      sets.push_back(circles_.of(vertex));
    return sets;
  }

 private:
  void hang_from(size_t root) {
    std::vector<size_t> open = {root};
    depth_[root] = 0;
    above_[root] = root;
    while (!open.empty()) {
      const size_t vertex = open.back();
      open.pop_back();
      for (const size_t next : tree_[vertex]) {
        if (depth_[next] >= 0) continue;
        depth_[next] = depth_[vertex] + 1;
        above_[next] = vertex;
        open.push_back(next);
      }
    }
  }

  /// A set is known by its vertex that is highest in the tree, so the deeper one moves up.
  void close(size_t a, size_t b) {
    while (a != b) {
      if (depth_[a] < depth_[b]) std::swap(a, b);
      const size_t up = circles_.of(above_[a]);
      circles_.join(a, up);
      a = up;
    }
  }

  Sets connected_, circles_;
  std::vector<std::vector<size_t>> tree_;
  std::vector<size_t> above_;
  std::vector<int64_t> depth_;
  std::vector<std::pair<size_t, size_t>> further_;
};

}  // namespace

std::map<int32_t, int32_t> clock_sets(const std::vector<std::vector<int32_t>>& met) {
  std::map<std::vector<int32_t>, int> groups;  // how many collectives these ranks share
  std::map<int32_t, size_t> vertex;            // by rank
  for (const std::vector<int32_t>& ranks : met) {
    ++groups[ranks];
    for (const int32_t rank : ranks)
      vertex.try_emplace(rank, vertex.size());
  }
  Circles circles(vertex.size() + 2 * groups.size());
  size_t collective = vertex.size();
  for (const auto& [ranks, number] : groups)
    for (int n = 0; n < std::min(number, 2); ++n, ++collective)
      for (const int32_t rank : ranks)
        circles.add_edge(vertex[rank], collective);
  const std::vector<size_t> sets = circles.find();
  std::map<size_t, int32_t> lowest;
  std::map<int32_t, int32_t> result;
  for (const auto& [rank, number] : vertex)  // in ascending order, so the first is the lowest
    result[rank] = lowest.try_emplace(sets[number], rank).first->second;
  return result;
}

}  // namespace triplepoint::metrics
