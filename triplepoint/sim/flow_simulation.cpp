// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/flow_simulation.h"

// Sends that share links, event by event.
//
// Engines run each pipeline until every stage waits for a send (schedule_engine.h). An event is the
// begin of a send's data or its end; all events of one moment are taken together before rates are
// solved again, and only for flows that hang together with the change (flow_simulation.h). A tensor
// keeps its end as things stand; when its rate changes, the bytes still to come are put at the new
// rate.
//
// Tensors are numbered by pipeline and wire; a wire has one in flight at most, so slots of the
// queue and places in the tables exist once. A flow's remaining bytes are not stored: its end and
// its rate give them, (end - now) * rate, which stays exact while the rate stays.
//
// Cost per event: O(log tensors) for the queue, plus a solution of the rates of one connected
// component (often looked up), plus one queue operation for each tensor whose rate changes.

#include <algorithm>

namespace triplepoint::sim {
namespace {

/// A boundary's tensor on its way; a boundary has one at a time.
struct FlyingTensor {
  size_t pipeline = 0, wire = 0;
  bool flows = false;  // the latency is over
  size_t place = 0;    // in its class' list
  Seconds begin, end;  // of the send; `end` as things stand
  double rate = 0;     // bytes/s of one rank
};

class FlowSimulation {
 public:
  FlowSimulation(std::span<LinkedPipeline> pipelines, const Wiring& wiring,
                 const Wiring::Cluster& cluster, FlowScratch& scratch)
      : pipelines_(pipelines),
        wiring_(wiring),
        cluster_(cluster),
        rates_(scratch.rates),
        tensors_(name_tensors()),
        queue_(tensors_.size()),
        in_flight_(scratch.in_flight) {}

  void run() {
    for (size_t p = 0; p < pipelines_.size(); ++p) {
      pipelines_[p].run();
      collect_starts(p);
    }
    while (!queue_.empty()) {
      now_ = queue_.next_time();
      take_what_happens_now();
      change_rates();
      // After the new rates: an arrival lets a stage go on and may begin sends, whose data flow at
      // this very moment only if they have no latency; those are the next round at the same time.
      for (const int32_t t : arrived_) {
        const FlyingTensor& tensor = tensors_[as_size(t)];
        pipelines_[tensor.pipeline].end_send(tensor.wire, now_);
        collect_starts(tensor.pipeline);
      }
    }
  }

 private:
  std::vector<FlyingTensor> name_tensors() {
    std::vector<FlyingTensor> tensors;
    for (size_t p = 0; p < pipelines_.size(); ++p) {
      first_.push_back(tensors.size());
      for (size_t w = 0; w < wiring_.wires(cluster_.pipelines[p]).size(); ++w)
        tensors.push_back({.pipeline = p, .wire = w});
    }
    return tensors;
  }

  const Wire& wire_of(const FlyingTensor& tensor) const {
    return wiring_.wires(cluster_.pipelines[tensor.pipeline])[tensor.wire];
  }

  void collect_starts(size_t pipeline) {
    for (const Begun& start : pipelines_[pipeline].begun()) {
      const size_t t = first_[pipeline] + start.of;
      FlyingTensor& tensor = tensors_[t];
      TPT_EXPECT(start.begin >= now_);
      tensor.begin = start.begin;
      tensor.flows = false;
      // The first event of a send is the begin of its data. Latency uses no link.
      queue_.set(static_cast<int32_t>(t), start.begin + wire_of(tensor).latency);
    }
    pipelines_[pipeline].begun().clear();
  }

  /// All of one moment at once: an order among equal times would show in the last bits.
  void take_what_happens_now() {
    arrived_.clear();
    set_out_.clear();
    while (!queue_.empty() && queue_.next_time() == now_) {
      const int32_t t = queue_.pop();
      if (tensors_[as_size(t)].flows)
        land(t);
      else
        set_out(t);
    }
  }

  void set_out(int32_t t) {
    FlyingTensor& tensor = tensors_[as_size(t)];
    const int32_t flow_class = wire_of(tensor).flow_class;
    std::vector<int32_t>& same = in_flight_[as_size(flow_class)];
    tensor.flows = true;
    tensor.place = same.size();
    same.push_back(t);
    // As if alone; change_rates() corrects it. Without other flows, these are the fast path's bits.
    tensor.rate = rates_.limit(flow_class);
    tensor.end = tensor.begin + wire_of(tensor).alone;
    rates_.add(flow_class);
    set_out_.push_back(t);
  }

  void land(int32_t t) {
    const FlyingTensor& tensor = tensors_[as_size(t)];
    const int32_t flow_class = wire_of(tensor).flow_class;
    std::vector<int32_t>& same = in_flight_[as_size(flow_class)];
    tensors_[as_size(same.back())].place = tensor.place;
    same[tensor.place] = same.back();
    same.pop_back();
    rates_.remove(flow_class);
    arrived_.push_back(t);
  }

  void change_rates() {
    for (const int32_t flow_class : rates_.resolve())
      for (const int32_t t : in_flight_[as_size(flow_class)])
        change_rate(t, rates_.rate(flow_class));
    for (const int32_t t : set_out_) {
      const FlyingTensor& tensor = tensors_[as_size(t)];
      change_rate(t, rates_.rate(wire_of(tensor).flow_class));
      queue_.set(t, tensor.end);
    }
  }

  /// What is still to come, at the new rate.
  void change_rate(int32_t t, double rate) {
    FlyingTensor& tensor = tensors_[as_size(t)];
    // An unchanged rate keeps the end's bits; recomputing it would round it anew at every event
    // nearby.
    if (tensor.rate == rate) return;
    const double to_come = (tensor.end - now_) / unit::s * tensor.rate;
    tensor.end = now_ + to_come / rate * unit::s;
    tensor.rate = rate;
    queue_.set(t, tensor.end);
  }

  std::span<LinkedPipeline> pipelines_;
  const Wiring& wiring_;
  const Wiring::Cluster& cluster_;
  FlowRates& rates_;
  std::vector<size_t> first_;  // [pipeline], of tensors_
  std::vector<FlyingTensor> tensors_;
  EventQueue queue_;
  std::vector<std::vector<int32_t>>& in_flight_;  // [class]
  std::vector<int32_t> arrived_, set_out_;
  Seconds now_;
};

}  // namespace

void simulate_flows(std::span<LinkedPipeline> pipelines, const Wiring& wiring,
                    const Wiring::Cluster& cluster, FlowScratch& scratch) {
  FlowSimulation(pipelines, wiring, cluster, scratch).run();
}

// Max-min fair rates while flows come and go.
//
// Solving all rates at every event costs flows times links, thousands of times per step. Three
// observations keep it small. Flows of one class have one rate, so counts by class are the whole
// state. A change reaches only classes connected to it over links in use. And the counts of a
// component repeat with every microbatch, so solutions are kept by counts. Rates are in bytes/s.
//
// Invariant between calls of resolve(): a class in flight has the rate that a solution of all flows
// together would give it; a class without flows has rate 0.

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
      classes_over_[as_size(use.link)].push_back(static_cast<int32_t>(c));
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
    for (const LinkUse& use : classes_[as_size(members_[m])].links)
      visit_link(as_size(use.link));
  // Classes were found in the order of the search. Sorted, equal components have equal keys and
  // their sums are taken in one order.
  if (members_.size() > 1) std::ranges::sort(members_);
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
    capacities.push_back(capacities_[as_size(link)]);
  const std::vector<perf::Flow> flows = flows_of_component(links);
  std::vector<BytesPerSecond> rates(flows.size());
  perf::fair_rates(flows, capacities, scratch_, rates);
  return by_class(rates);
}

std::vector<int32_t> FlowRates::links_of_component() const {
  std::vector<int32_t> links;
  for (size_t i = 0; i < component_.size(); i += 2)
    for (const LinkUse& use : classes_[as_size(component_[i])].links)
      links.push_back(use.link);
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

/// Links by their place among `links`; one is named once per rank on it.
std::vector<perf::Flow> FlowRates::flows_of_component(std::span<const int32_t> links) const {
  std::vector<perf::Flow> flows;
  for (size_t i = 0; i < component_.size(); i += 2) {
    const FlowClass& of = classes_[as_size(component_[i])];
    perf::Flow flow{.own_limit = BytesPerSecond(of.limit)};
    for (const LinkUse& use : of.links) {
      const auto at = std::lower_bound(links.begin(), links.end(), use.link);
      flow.links.insert(flow.links.end(), as_size(use.ranks),
                        static_cast<int32_t>(at - links.begin()));
    }
    flows.insert(flows.end(), as_size(component_[i + 1]), flow);
  }
  return flows;
}

/// Flows of a class differ by rounding at most; the slowest speaks for all.
std::vector<double> FlowRates::by_class(std::span<const BytesPerSecond> rates) const {
  std::vector<double> slowest;
  for (size_t i = 0; i < component_.size(); i += 2) {
    const auto flows = as_size(component_[i + 1]);
    const auto of_class = rates.first(flows);
    const double rate = std::ranges::min_element(of_class)->in_base_units();
    const double limit = classes_[as_size(component_[i])].limit;
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
