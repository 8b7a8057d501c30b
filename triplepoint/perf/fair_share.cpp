// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates by water filling, event by event instead of level by level.
//
// The level rises from one event to the next: a flow reaches its own limit, or a link is full.
// Limits are sorted once. Links wait in a heap by the level at which they would fill, with lazy
// updates. Flows of each link lie side by side (crossings), so freezing costs a walk over one link.
//
// Invariant: free = capacity - rates of frozen flows, open = crossings of flows that are not
// frozen.
#include "triplepoint/perf/fair_share.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace triplepoint::perf {
namespace {

using Level = std::pair<double, int32_t>;  // water level, and the link or flow that stops there

/// The water rises in one direction only: levels of links never fall while flows freeze, so a stale
/// heap entry is too low and is pushed again when it comes up.
class WaterFilling {
 public:
  WaterFilling(std::span<const Flow> flows, FairShareScratch& scratch,
               std::span<BytesPerSecond> rates)
      : flows_(flows), scratch_(scratch), rates_(rates) {}

  void run(std::span<const BytesPerSecond> capacities) {
    lay_out_links(capacities);
    list_crossings();
    start_levels();
    while (stop_next_limit() || stop_next_link()) {
    }
  }

 private:
  FairShareScratch::Link& link(int32_t index) { return scratch_.links[as_size(index)]; }

  void lay_out_links(std::span<const BytesPerSecond> capacities) {
    scratch_.links.clear();
    for (const BytesPerSecond capacity : capacities)
      scratch_.links.push_back({.free = capacity.in_base_units()});
    for (const Flow& flow : flows_) {
      for (const int32_t l : flow.links)
        ++link(l).open;
    }
    int32_t total = 0;
    for (FairShareScratch::Link& l : scratch_.links) {
      l.first = l.last = total;
      total += l.open;
    }
    scratch_.crossings.resize(as_size(total));
  }

  void list_crossings() {
    for (size_t f = 0; f < flows_.size(); ++f) {
      for (const int32_t l : flows_[f].links)
        scratch_.crossings[as_size(link(l).last++)] = static_cast<int32_t>(f);
    }
  }

  void start_levels() {
    scratch_.frozen.assign(flows_.size(), 0);
    scratch_.limits.clear();
    for (size_t f = 0; f < flows_.size(); ++f) {
      rates_[f] = BytesPerSecond(std::numeric_limits<double>::infinity());
      const double limit = flows_[f].own_limit.in_base_units();
      if (limit > 0) scratch_.limits.emplace_back(limit, static_cast<int32_t>(f));
    }
    std::ranges::sort(scratch_.limits, std::greater<>());
    scratch_.fills.clear();
    for (size_t l = 0; l < scratch_.links.size(); ++l)
      push(static_cast<int32_t>(l));
  }

  // Subtracted rates may add up to more than the capacity by rounding.
  double level_of(int32_t l) { return std::max(0.0, link(l).free) / link(l).open; }

  void push(int32_t l) {
    if (link(l).open == 0) return;
    scratch_.fills.emplace_back(level_of(l), l);
    std::push_heap(scratch_.fills.begin(), scratch_.fills.end(), std::greater<>());
  }

  int32_t pop() {
    std::pop_heap(scratch_.fills.begin(), scratch_.fills.end(), std::greater<>());
    const int32_t l = scratch_.fills.back().second;
    scratch_.fills.pop_back();
    return l;
  }

  /// The heap's lowest entry becomes a true one, or the heap empty.
  void refresh_lowest() {
    while (!scratch_.fills.empty()) {
      const Level lowest = scratch_.fills.front();
      if (link(lowest.second).open > 0 && level_of(lowest.second) == lowest.first) return;
      push(pop());
    }
  }

  void freeze(int32_t f, double level) {
    const auto flow = as_size(f);
    scratch_.frozen[flow] = 1;
    rates_[flow] = BytesPerSecond(level);
    for (const int32_t l : flows_[flow].links) {
      link(l).free -= level;
      --link(l).open;
    }
  }

  bool stop_next_limit() {
    while (!scratch_.limits.empty() &&
           scratch_.frozen[as_size(scratch_.limits.back().second)] != 0) {
      scratch_.limits.pop_back();
    }
    if (scratch_.limits.empty()) return false;
    refresh_lowest();
    const auto [limit, flow] = scratch_.limits.back();
    // A link fills before the next limit is reached. On a tie the limit goes first, so that a flow
    // gets exactly its own limit and not a quotient that rounds to it.
    if (!scratch_.fills.empty() && scratch_.fills.front().first < limit) return false;
    scratch_.limits.pop_back();
    freeze(flow, limit);
    return true;
  }

  bool stop_next_link() {
    refresh_lowest();
    if (scratch_.fills.empty()) return false;
    const double level = scratch_.fills.front().first;
    const int32_t full = pop();
    for (int32_t c = link(full).first; c < link(full).last; ++c) {
      const int32_t f = scratch_.crossings[as_size(c)];
      if (scratch_.frozen[as_size(f)] == 0) freeze(f, level);
    }
    return true;
  }

  std::span<const Flow> flows_;
  FairShareScratch& scratch_;
  std::span<BytesPerSecond> rates_;
};

}  // namespace

void fair_rates(std::span<const Flow> flows, std::span<const BytesPerSecond> capacities,
                FairShareScratch& scratch, std::span<BytesPerSecond> rates) {
  WaterFilling(flows, scratch, rates).run(capacities);
}

std::vector<BytesPerSecond> fair_rates(std::span<const Flow> flows,
                                       std::span<const BytesPerSecond> capacities) {
  FairShareScratch scratch;
  std::vector<BytesPerSecond> rates(flows.size());
  fair_rates(flows, capacities, scratch, rates);
  return rates;
}

}  // namespace triplepoint::perf
