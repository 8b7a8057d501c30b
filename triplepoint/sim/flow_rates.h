// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "triplepoint/perf/fair_share.h"
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
  double rate(int32_t flow_class) const { return states_[static_cast<size_t>(flow_class)].rate; }
  double limit(int32_t flow_class) const { return classes_[static_cast<size_t>(flow_class)].limit; }

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

  State& state(int32_t flow_class) { return states_[static_cast<size_t>(flow_class)]; }
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

}  // namespace triplepoint::sim
