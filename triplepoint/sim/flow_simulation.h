// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/perf/fair_share.h"
#include "triplepoint/sim/schedule_engine.h"
#include "triplepoint/sim/wiring.h"

namespace triplepoint::sim {

/// Max-min fair rates (perf::fair_rates) of flows that come and go.
///
/// Flows are counted by class. Only what a change touches is solved again: the classes that hang
/// together with it over links in use. Rates follow from the counts alone, and counts repeat with
/// every microbatch, so what was solved is kept.
class FlowRates {
 public:
  FlowRates(std::span<const FlowClass> classes, std::span<const BytesPerSecond> capacities);

  void add(int32_t flow_class) { change(flow_class, 1); }
  void remove(int32_t flow_class) { change(flow_class, -1); }

  /// Rates after all changes since the last call. Returns the classes whose rate is now another
  /// one.
  std::span<const int32_t> resolve();

  /// Of one rank of one flow, bytes/s; no flow in flight: 0.
  double rate(int32_t flow_class) const { return states_[as_size(flow_class)].rate; }
  double limit(int32_t flow_class) const { return classes_[as_size(flow_class)].limit; }

 private:
  struct State {
    int32_t flows = 0;
    int32_t seen_in = 0;  // round of resolve()
    double rate = 0;
  };
  using Component = std::vector<int32_t>;  // class, flows, class, flows ..., ascending classes
  struct Hash {
    size_t operator()(const Component& component) const;
  };

  State& state(int32_t flow_class) { return states_[as_size(flow_class)]; }
  void change(int32_t flow_class, int32_t flows);
  void collect(int32_t first);
  void visit_link(size_t link);
  const std::vector<double>& solve();
  std::vector<double> solve_anew();
  std::vector<int32_t> links_of_component() const;
  std::vector<perf::Flow> flows_of_component(std::span<const int32_t> links) const;
  std::vector<double> by_class(std::span<const BytesPerSecond> rates) const;
  void take_over(const std::vector<double>& rates);

  std::span<const FlowClass> classes_;
  std::span<const BytesPerSecond> capacities_;
  std::vector<State> states_;                       // [class]
  std::vector<std::vector<int32_t>> classes_over_;  // [link]
  std::vector<int32_t> link_seen_in_;               // [link]
  std::vector<int32_t> touched_, changed_, members_;
  Component component_;
  std::unordered_map<Component, std::vector<double>, Hash> solved_;  // only looked up, never walked
  perf::FairShareScratch scratch_;
  int32_t round_ = 0;
};

/// What flow simulations of one wiring share, one after the other: rates once solved, and room.
struct FlowScratch {
  explicit FlowScratch(const Wiring& wiring)
      : rates(wiring.classes(), wiring.capacities()), in_flight(wiring.classes().size()) {}
  FlowRates rates;
  std::vector<std::vector<int32_t>> in_flight;  // tensors, [class]; empty between simulations
};

/// Runs pipelines that meet on links event by event; by pipeline of the cluster, started.
void simulate_flows(std::span<LinkedPipeline> pipelines, const Wiring& wiring,
                    const Wiring::Cluster& cluster, FlowScratch& scratch);

/// Times of slots, earliest first; a slot has at most one time, which may move. Equal times come by
/// slot. A binary heap that knows where each slot stands: O(log n) for everything.
class EventQueue {
 public:
  explicit EventQueue(size_t slots) : place_(slots, absent) { heap_.reserve(slots); }

  bool empty() const { return heap_.empty(); }
  Seconds next_time() const { return heap_.front().time; }

  void set(int32_t slot, Seconds time) {
    size_t at = place_[as_size(slot)];
    if (at == absent) {
      at = heap_.size();
      heap_.push_back({time, slot});
    }
    const Entry entry{time, slot};
    sink(entry, rise(entry, at));
  }

  int32_t pop() {
    TPT_EXPECT(!heap_.empty());
    const int32_t slot = heap_.front().slot;
    place_[as_size(slot)] = absent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last, 0);
    return slot;
  }

 private:
  static constexpr size_t absent = ~size_t{0};
  struct Entry {
    Seconds time;
    int32_t slot;
    bool before(const Entry& other) const {
      return time < other.time || (time == other.time && slot < other.slot);
    }
  };

  /// Where the entry belongs, looking towards the front from `at`; makes room on the way.
  size_t rise(const Entry& entry, size_t at) {
    while (at > 0 && entry.before(heap_[(at - 1) / 2])) {
      put(heap_[(at - 1) / 2], at);
      at = (at - 1) / 2;
    }
    return at;
  }

  void sink(const Entry& entry, size_t at) {
    for (size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(entry)) break;
      put(heap_[child], at);
      at = child;
    }
    put(entry, at);
  }

  void put(const Entry& entry, size_t at) {
    heap_[at] = entry;
    place_[as_size(entry.slot)] = at;
  }

  std::vector<Entry> heap_;
  std::vector<size_t> place_;  // [slot]
};

}  // namespace triplepoint::sim
