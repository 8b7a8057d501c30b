// SPDX-License-Identifier: Apache-2.0
// Sends that share links, event by event.
//
// Engines run each pipeline until every stage waits for a send (schedule_engine.h). An event is the
// begin of a send's data or its end; all events of one moment are taken together before rates are
// solved again, and only for flows that hang together with the change (flow_rates.h). A tensor
// keeps its end as things stand; when its rate changes, the bytes still to come are put at the new
// rate.
//
// Tensors are numbered by pipeline and wire; a wire has one in flight at most, so slots of the
// queue and places in the tables exist once. A flow's remaining bytes are not stored: its end and
// its rate give them, (end - now) * rate, which stays exact while the rate stays.
//
// Cost per event: O(log tensors) for the queue, plus a solution of the rates of one connected
// component (often looked up), plus one queue operation for each tensor whose rate changes.
#include "triplepoint/sim/flow_simulation.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

#include "triplepoint/sim/event_queue.h"
#include "triplepoint/sim/flow_rates.h"

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
                 const Wiring::Cluster& cluster, const LinkObserver& observer, FlowScratch& scratch)
      : pipelines_(pipelines),
        wiring_(wiring),
        cluster_(cluster),
        observer_(observer),
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
        const FlyingTensor& tensor = tensors_[static_cast<size_t>(t)];
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
      if (tensors_[static_cast<size_t>(t)].flows)
        land(t);
      else
        set_out(t);
    }
  }

  void set_out(int32_t t) {
    FlyingTensor& tensor = tensors_[static_cast<size_t>(t)];
    const int32_t flow_class = wire_of(tensor).flow_class;
    std::vector<int32_t>& same = in_flight_[static_cast<size_t>(flow_class)];
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
    const FlyingTensor& tensor = tensors_[static_cast<size_t>(t)];
    const int32_t flow_class = wire_of(tensor).flow_class;
    std::vector<int32_t>& same = in_flight_[static_cast<size_t>(flow_class)];
    tensors_[static_cast<size_t>(same.back())].place = tensor.place;
    same[tensor.place] = same.back();
    same.pop_back();
    rates_.remove(flow_class);
    arrived_.push_back(t);
  }

  void change_rates() {
    for (const int32_t flow_class : rates_.resolve())
      for (const int32_t t : in_flight_[static_cast<size_t>(flow_class)])
        change_rate(t, rates_.rate(flow_class));
    for (const int32_t t : set_out_) {
      const FlyingTensor& tensor = tensors_[static_cast<size_t>(t)];
      change_rate(t, rates_.rate(wire_of(tensor).flow_class));
      queue_.set(t, tensor.end);
    }
    if (observer_) report_links();
  }

  /// What is still to come, at the new rate.
  void change_rate(int32_t t, double rate) {
    FlyingTensor& tensor = tensors_[static_cast<size_t>(t)];
    // An unchanged rate keeps the end's bits; recomputing it would round it anew at every event
    // nearby.
    if (tensor.rate == rate) return;
    const double to_come = (tensor.end - now_) / unit::s * tensor.rate;
    tensor.end = now_ + to_come / rate * unit::s;
    tensor.rate = rate;
    queue_.set(t, tensor.end);
  }

  void report_links() {
    std::vector<BytesPerSecond> carried(wiring_.capacities().size());
    for (const FlyingTensor& tensor : tensors_) {
      const int32_t flow_class = wire_of(tensor).flow_class;
      if (flow_class == Wire::no_flow) continue;
      const std::vector<int32_t>& same = in_flight_[static_cast<size_t>(flow_class)];
      const size_t t = static_cast<size_t>(&tensor - tensors_.data());
      if (std::find(same.begin(), same.end(), static_cast<int32_t>(t)) == same.end()) continue;
      for (const LinkUse& use : wiring_.classes()[static_cast<size_t>(flow_class)].links)
        carried[static_cast<size_t>(use.link)] += BytesPerSecond(use.ranks * tensor.rate);
    }
    observer_(now_, carried);
  }

  std::span<LinkedPipeline> pipelines_;
  const Wiring& wiring_;
  const Wiring::Cluster& cluster_;
  const LinkObserver& observer_;
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
                    const Wiring::Cluster& cluster, const LinkObserver& observer,
                    FlowScratch& scratch) {
  FlowSimulation(pipelines, wiring, cluster, observer, scratch).run();
}

}  // namespace triplepoint::sim
