// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/collectives.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

#include "triplepoint/base/statistics.h"

namespace triplepoint::metrics {

namespace {

const CollectivePart& extreme_part(const Collective& collective, auto less) {
  return *std::ranges::min_element(collective.parts, less);
}

void add(CollectiveRow& row, const Collective& collective) {
  ++row.occurrences;
  for (const CollectivePart& part : collective.parts) {
    row.total += part.duration();
    row.shortest = row.kernels == 0 ? part.duration() : std::min(row.shortest, part.duration());
    row.longest = std::max(row.longest, part.duration());
    ++row.kernels;
  }
  const auto transfer = collective.transfer();
  if (!transfer) return;
  ++row.timed;
  row.transfer += *transfer;
  row.timed_kernels += static_cast<int64_t>(collective.parts.size());
  for (const CollectivePart& part : collective.parts)
    row.wait += collective.wait_of(part);
}

std::optional<double> mean(int64_t sum, int64_t number) {
  if (number == 0) return std::nullopt;
  return as_real(sum) / as_real(number);
}

void finish(CollectiveRow& row) {
  const double ns = row.mean_transfer().value_or(as_real(row.shortest));
  if (row.size <= Bytes() || ns <= 0) return;
  row.algbw_gb_s = row.size / unit::B / ns;  // B/ns is GB/s
  if (const auto factor = bus_factor(row.label, row.group_size))
    row.busbw_gb_s = *row.algbw_gb_s * *factor;
}

}  // namespace

int64_t Collective::first_begin() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin < b.begin; }).begin;
}
int64_t Collective::last_begin() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin > b.begin; }).begin;
}
int64_t Collective::first_end() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.end < b.end; }).end;
}
int64_t Collective::last_end() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.end > b.end; }).end;
}
int32_t Collective::last_starter() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin > b.begin; }).rank;
}

int64_t Collective::wait_of(const CollectivePart& part) const {
  return std::clamp<int64_t>(arrival() - part.begin, 0, std::max<int64_t>(0, part.duration()));
}

std::optional<int64_t> Collective::transfer() const {
  if (!knows_waits()) return std::nullopt;
  return std::max<int64_t>(0, last_end() - arrival());  // stamps are rounded
}

std::optional<double> CollectiveRow::mean_transfer() const {
  return mean(transfer, timed);
}
std::optional<double> CollectiveRow::mean_wait() const {
  return mean(wait, timed_kernels);
}

std::optional<double> bus_factor(std::string_view label, int32_t ranks) {
  if (ranks < 1) return std::nullopt;
  const double others = as_real(ranks - 1) / ranks;
  if (label == "all_reduce") return 2 * others;
  if (label == "all_gather" || label == "reduce_scatter" || label == "all_to_all") return others;
  if (label == "broadcast" || label == "send_recv") return 1.0;
  return std::nullopt;
}

void CollectiveTable::add(const Collective& c) {
  CollectiveRow& row = rows_[{c.label, c.group_size, c.size, c.count}];
  row.label = c.label;
  row.group_size = c.group_size;
  row.size = c.size;
  row.count = c.count;
  metrics::add(row, c);
}

std::vector<CollectiveRow> CollectiveTable::rows() const {
  std::vector<CollectiveRow> table;
  for (const auto& [key, row] : rows_) {
    table.push_back(row);
    finish(table.back());
  }
  return table;
}

std::vector<CollectiveRow> tabulate(const std::vector<Collective>& collectives) {
  CollectiveTable table;
  for (const Collective& collective : collectives)
    table.add(collective);
  return table.rows();
}

// Offsets between the clocks of ranks, from the ends of collectives (model: collectives.h).
//
// Ends, not begins: a rank begins a collective when it is ready, but all leave it together, so an
// end is the nearest thing to a common instant that a trace holds. Two sets of unknowns, offsets
// and common ends, are improved in turn, each being a median of the other's residuals. No round
// raises the sum of absolute residuals, and, unlike least squares, is not moved by collectives
// whose ranks leave at different times.
//
// Rounds move one rank at a time, so they cannot move a host whose ranks mostly meet each other:
// each rank's median is 0, however far the host is off. Hence the start: offsets along a minimum
// spanning tree over pairs of ranks, weighted by the scatter of the pair's differences. Of a group
// only neighbours in rank order and the first rank with each other are paired, which connects it.
//
// Cost: rounds times ends, with a median each; it usually stops after few rounds, as medians of
// integers repeat. Holds for constant offsets: drift between clocks stays in the residuals.

namespace {

constexpr int most_rounds = 50;

std::vector<std::vector<int32_t>> ranks_of(const std::vector<Collective>& collectives) {
  std::vector<std::vector<int32_t>> all;
  for (const Collective& collective : collectives) {
    std::vector<int32_t>& ranks = all.emplace_back();
    for (const CollectivePart& part : collective.parts)
      ranks.push_back(part.rank);
  }
  return all;
}

class Fitter {
 public:
  explicit Fitter(const std::vector<Collective>& collectives) {
    const std::map<int32_t, int32_t> sets = clock_sets(ranks_of(collectives));
    std::set<int32_t> unchecked;
    for (const Collective& collective : collectives) {
      std::map<int32_t, Parts> of_set;
      for (const CollectivePart& part : collective.parts) {
        offset_.try_emplace(part.rank, 0);
        of_set[sets.at(part.rank)].push_back(part);
      }
      for (auto& [set, parts] : of_set) {
        if (of_set.size() > 1)
          for (const CollectivePart& part : parts)
            unchecked.insert(part.rank);
        if (parts.size() > 1) anchors_.push_back(std::move(parts));
      }
    }
    unchecked_ = static_cast<int64_t>(unchecked.size());
  }

  ClockFit fit() {
    start_from_tree();
    for (int round = 0; round < most_rounds; ++round)
      if (!improve()) break;
    return result();
  }

 private:
  using Parts = std::vector<CollectivePart>;  // of one collective, on ranks of one clock set

  struct Edge {
    int64_t scatter = 0;     // ns, median distance from the difference
    int64_t anchors = 0;     // negative, so that more of them come first
    int32_t a = 0, b = 0;    // ranks
    int64_t difference = 0;  // ns, of b's clock to a's
  };

  std::vector<Edge> edges() const {
    std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>> of_pair;
    const auto add = [&](const CollectivePart& a, const CollectivePart& b) {
      of_pair[{a.rank, b.rank}].push_back(b.end - a.end);
    };
    for (const Parts& parts : anchors_)
      for (size_t i = 1; i < parts.size(); ++i) {
        add(parts[i - 1], parts[i]);
        if (i > 1) add(parts[0], parts[i]);
      }
    std::vector<Edge> edges;
    for (auto& [pair, differences] : of_pair) {
      Edge edge{.anchors = -static_cast<int64_t>(differences.size()),
                .a = pair.first,
                .b = pair.second,
                .difference = lower_median(differences)};
      for (int64_t& difference : differences)
        difference = std::abs(difference - edge.difference);
      // One or two differences show no scatter: they come after pairs that do.
      edge.scatter = differences.size() > 2 ? lower_median(std::move(differences)) : unknown;
      edges.push_back(edge);
    }
    std::ranges::sort(edges, [](const Edge& a, const Edge& b) {
      return std::tie(a.scatter, a.anchors, a.a, a.b) < std::tie(b.scatter, b.anchors, b.a, b.b);
    });
    return edges;
  }

  /// Kruskal: each edge that connects two islands moves the second one's offsets.
  void start_from_tree() {
    std::map<int32_t, std::vector<int32_t>> members;
    for (const auto& [rank, offset] : offset_) {
      island_[rank] = rank;
      members[rank] = {rank};
    }
    for (const Edge& edge : edges()) {
      const int32_t into = island_[edge.a], from = island_[edge.b];
      if (into == from) continue;
      const int64_t shift = offset_[edge.a] + edge.difference - offset_[edge.b];
      for (const int32_t rank : members[from]) {
        offset_[rank] += shift;
        island_[rank] = into;
        members[into].push_back(rank);
      }
      members.erase(from);
    }
    islands_ = static_cast<int64_t>(members.size());
    center(offset_);
  }

  /// Adding one number to all offsets of an island changes no residual; the median at 0 fixes that
  /// freedom.
  void center(std::map<int32_t, int64_t>& offsets) const {
    std::map<int32_t, std::vector<int64_t>> of_island;
    for (const auto& [rank, offset] : offsets)
      of_island[island_.at(rank)].push_back(offset);
    std::map<int32_t, int64_t> middle;
    for (auto& [island, all] : of_island)
      middle[island] = lower_median(std::move(all));
    for (auto& [rank, offset] : offsets)
      offset -= middle.at(island_.at(rank));
  }

  int64_t common_end(const Parts& parts) const {
    std::vector<int64_t> ends =
        mapped(parts, [&](const CollectivePart& part) { return part.end - offset_.at(part.rank); });
    return lower_median(std::move(ends));
  }

  /// Distance of each rank's ends from the common ones, offsets not taken out.
  std::map<int32_t, std::vector<int64_t>> distances() const {
    std::map<int32_t, std::vector<int64_t>> of_rank;
    for (const Parts& parts : anchors_) {
      const int64_t end = common_end(parts);
      for (const CollectivePart& part : parts)
        of_rank[part.rank].push_back(part.end - end);
    }
    return of_rank;
  }

  bool improve() {
    std::map<int32_t, int64_t> better = offset_;
    for (auto& [rank, distances] : distances())
      better[rank] = lower_median(std::move(distances));
    center(better);
    const bool changed = better != offset_;
    offset_ = std::move(better);
    return changed;
  }

  ClockFit result() const {
    ClockFit fit{.anchors = static_cast<int64_t>(anchors_.size()),
                 .islands = islands_,
                 .unchecked = unchecked_};
    std::vector<int64_t> all;
    const auto of_rank = distances();
    for (const auto& [rank, offset] : offset_) {
      RankClock clock{.rank = rank};
      if (const auto found = of_rank.find(rank); found != of_rank.end()) {
        clock.offset = offset;
        std::vector<int64_t> residuals =
            mapped(found->second, [&](int64_t distance) { return std::abs(distance - offset); });
        all.insert(all.end(), residuals.begin(), residuals.end());
        clock.anchors = static_cast<int64_t>(residuals.size());
        clock.residual = lower_median(std::move(residuals));
      }
      fit.ranks.push_back(clock);
    }
    if (all.empty()) return fit;
    fit.worst_residual = *std::ranges::max_element(all);
    fit.residual = lower_median(std::move(all));
    return fit;
  }

  static constexpr int64_t unknown = INT64_MAX;
  std::vector<Parts> anchors_;
  std::map<int32_t, int64_t> offset_;
  std::map<int32_t, int32_t> island_;  // its lowest rank before it grew
  int64_t islands_ = 0, unchecked_ = 0;
};

}  // namespace

bool ClockFit::clocks_differ(int64_t noise) const {
  // Within its scatter an offset cannot be told from ranks that leave one after the other.
  constexpr int64_t times_scatter = 5;
  return std::ranges::any_of(ranks, [&](const RankClock& clock) {
    return std::abs(clock.offset) > std::max(noise, times_scatter * residual);
  });
}

int64_t ClockFit::uncertainty() const {
  return std::clamp<int64_t>(5 * residual, 20'000, 1'000'000);
}

std::string clock_sentence(const ClockFit& fit, bool aligned) {
  if (fit.anchors == 0)
    return fit.unchecked == 0
               ? ""
               : "clocks of ranks are not brought into line: no two ranks share more "
                 "than one collective, and one fits any offset; trace more of them";
  std::string text = fmt::format(
      "clocks of ranks {} by the ends of {} collectives: median residual {:.1f} us, worst {:.1f} "
      "us",
      aligned ? "brought into line" : "compared", fit.anchors, as_real(fit.residual) / 1e3,
      as_real(fit.worst_residual) / 1e3);
  if (aligned) text += "; --align never leaves them";
  if (fit.islands > 1)
    text += fmt::format(
        "; {} sets of ranks share at most one collective, so their clocks are not compared",
        fit.islands);
  return text;
}

ClockFit fit_clocks(const std::vector<Collective>& collectives) {
  return Fitter(collectives).fit();
}

run::Timeline align_clocks(run::Timeline timeline, const ClockFit& fit) {
  std::map<int32_t, int64_t> offsets;
  for (const RankClock& clock : fit.ranks)
    offsets[clock.rank] = clock.offset;
  const auto shifted = [&](Instant when, int32_t rank) {
    return Instant(when.nanoseconds() - value_at(offsets, rank).value_or(0));
  };
  for (run::Span& span : timeline.spans) {
    span.begin = shifted(span.begin, span.rank);
    span.end = shifted(span.end, span.rank);
  }
  for (run::PatternInstance& instance : timeline.instances)
    instance.begin = shifted(instance.begin, instance.rank);
  return timeline;  // a rank's order does not change
}

// A forest connects ranks and collectives. Each further edge closes a circle with the path between
// its ends in the forest, and whatever lies on a circle is one set. Collectives of the same ranks
// count twice at most: the second one closes all circles that a third could.
//
// Cost: in the number of different groups of ranks, not of collectives, after one sort of these.

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
    return numbered(depth_.size(), [&](size_t vertex) { return circles_.of(vertex); });
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
