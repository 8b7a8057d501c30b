// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates while flows come and go.
//
// Solving all rates at every event costs flows times links, thousands of times per step. Three
// observations keep it small. Flows of one class have one rate, so counts by class are the whole
// state. A change reaches only classes connected to it over links in use. And the counts of a
// component repeat with every microbatch, so solutions are kept by counts. Rates are in bytes/s.
//
// Invariant between calls of resolve(): a class in flight has the rate that a solution of all flows
// together would give it; a class without flows has rate 0.
#include "triplepoint/sim/flow_rates.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

namespace triplepoint::sim {
namespace {

// A rate this close to the flow's own limit is the limit: what is left of it is rounding, and equal
// flows have to end at the same moment.
constexpr double at_limit = 1 - 1e-9;
// Bounds memory where counts hardly repeat; then the table starts again from nothing.
constexpr size_t most_kept = 1 << 16;

}  // namespace

FlowRates::FlowRates(std::span<const FlowClass> classes, std::span<const BytesPerSecond> capacities)
    : classes_(classes),
      capacities_(capacities),
      states_(classes.size()),
      classes_over_(capacities.size()),
      link_seen_in_(capacities.size(), 0) {
  for (size_t c = 0; c < classes.size(); ++c)
    for (const LinkUse& use : classes[c].links)
      classes_over_[static_cast<size_t>(use.link)].push_back(static_cast<int32_t>(c));
}

size_t FlowRates::Hash::operator()(const Component& component) const {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const int32_t word : component)
    hash = (hash ^ static_cast<uint32_t>(word)) * 1099511628211U;
  return hash ^ (hash >> 32U);
}

void FlowRates::change(int32_t flow_class, int32_t flows) {
  State& of = state(flow_class);
  of.flows += flows;
  TPT_EXPECT(of.flows >= 0);
  if (of.flows == 0) of.rate = 0;
  touched_.push_back(flow_class);
}

std::span<const int32_t> FlowRates::resolve() {
  changed_.clear();
  ++round_;
  for (const int32_t flow_class : touched_) {
    if (state(flow_class).seen_in == round_) continue;
    collect(flow_class);
    if (!component_.empty()) take_over(solve());
  }
  touched_.clear();
  return changed_;
}

/// All classes in flight that hang together with `first` over links. A class of which the last flow
/// has gone still leads to those it shared with.
void FlowRates::collect(int32_t first) {
  members_.assign(1, first);
  state(first).seen_in = round_;
  for (size_t m = 0; m < members_.size(); ++m)
    for (const LinkUse& use : classes_[static_cast<size_t>(members_[m])].links)
      visit_link(static_cast<size_t>(use.link));
  // Classes were found in the order of the search. Sorted, equal components have equal keys and
  // their sums are taken in one order.
  if (members_.size() > 1) std::sort(members_.begin(), members_.end());
  component_.clear();
  for (const int32_t member : members_)
    if (state(member).flows > 0) {
      component_.push_back(member);
      component_.push_back(state(member).flows);
    }
}

void FlowRates::visit_link(size_t link) {
  if (link_seen_in_[link] == round_) return;
  link_seen_in_[link] = round_;
  for (const int32_t flow_class : classes_over_[link]) {
    State& of = state(flow_class);
    // Idle classes conduct nothing: two busy ones that meet only through them are independent.
    if (of.flows == 0 || of.seen_in == round_) continue;
    of.seen_in = round_;
    members_.push_back(flow_class);
  }
}

const std::vector<double>& FlowRates::solve() {
  const auto known = solved_.find(component_);
  if (known != solved_.end()) return known->second;
  if (solved_.size() == most_kept) solved_.clear();
  return solved_.emplace(component_, solve_anew()).first->second;
}

std::vector<double> FlowRates::solve_anew() {
  const std::vector<int32_t> links = links_of_component();
  std::vector<BytesPerSecond> capacities;
  capacities.reserve(links.size());
  for (const int32_t link : links)
    capacities.push_back(capacities_[static_cast<size_t>(link)]);
  const std::vector<perf::Flow> flows = flows_of_component(links);
  std::vector<BytesPerSecond> rates(flows.size());
  perf::fair_rates(flows, capacities, scratch_, rates);
  return by_class(rates);
}

std::vector<int32_t> FlowRates::links_of_component() const {
  std::vector<int32_t> links;
  for (size_t i = 0; i < component_.size(); i += 2)
    for (const LinkUse& use : classes_[static_cast<size_t>(component_[i])].links)
      links.push_back(use.link);
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

/// Links by their place among `links`; one is named once per rank on it.
std::vector<perf::Flow> FlowRates::flows_of_component(std::span<const int32_t> links) const {
  std::vector<perf::Flow> flows;
  for (size_t i = 0; i < component_.size(); i += 2) {
    const FlowClass& of = classes_[static_cast<size_t>(component_[i])];
    perf::Flow flow{.links = {}, .own_limit = BytesPerSecond(of.limit)};
    for (const LinkUse& use : of.links) {
      const auto at = std::lower_bound(links.begin(), links.end(), use.link);
      flow.links.insert(flow.links.end(), static_cast<size_t>(use.ranks),
                        static_cast<int32_t>(at - links.begin()));
    }
    flows.insert(flows.end(), static_cast<size_t>(component_[i + 1]), flow);
  }
  return flows;
}

/// Flows of a class differ by rounding at most; the slowest speaks for all.
std::vector<double> FlowRates::by_class(std::span<const BytesPerSecond> rates) const {
  std::vector<double> slowest;
  for (size_t i = 0; i < component_.size(); i += 2) {
    const auto flows = static_cast<size_t>(component_[i + 1]);
    const auto of_class = rates.first(flows);
    const double rate = std::min_element(of_class.begin(), of_class.end())->in_base_units();
    const double limit = classes_[static_cast<size_t>(component_[i])].limit;
    slowest.push_back(rate >= limit * at_limit ? limit : rate);
    rates = rates.subspan(flows);
  }
  return slowest;
}

void FlowRates::take_over(const std::vector<double>& rates) {
  for (size_t i = 0; i < rates.size(); ++i) {
    const int32_t flow_class = component_[2 * i];
    State& of = state(flow_class);
    if (of.rate == rates[i]) continue;
    of.rate = rates[i];
    changed_.push_back(flow_class);
  }
}

}  // namespace triplepoint::sim
