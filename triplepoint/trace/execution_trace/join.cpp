// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include "triplepoint/run/timeline.h"

#include "triplepoint/trace/execution_trace/execution_trace.h"
#include "triplepoint/trace/kernel_kind.h"

namespace triplepoint::trace {

namespace {

using run::SpanKind;
/// Positions (in the trace's nodes or the timeline's spans), in order, by name.
using ByName = std::map<std::string, std::vector<size_t>>;

bool is_device(const run::SpanType& type) {
  return type.kind <= SpanKind::other || type.kind == SpanKind::copy;
}

class Joiner {
 public:
  Joiner(const ExecutionTrace& trace, int32_t rank, run::Timeline& timeline)
      : trace_(trace), timeline_(timeline) {
    const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
    begin_ = static_cast<size_t>(first - timeline.spans.data());
    end_ = static_cast<size_t>(last - timeline.spans.data());
    timeline_.details.resize(timeline_.spans.size());
  }

  Joined join() {
    index_spans();
    std::map<int32_t, std::vector<size_t>> threads;
    for (size_t i = 0; i < trace_.nodes.size(); ++i)
      if (trace_.nodes[i].record_function_id > 0) threads[trace_.nodes[i].thread].push_back(i);
    for (auto& [thread, nodes] : threads) {
      std::stable_sort(nodes.begin(), nodes.end(), [&](size_t a, size_t b) {
        return trace_.nodes[a].record_function_id < trace_.nodes[b].record_function_id;
      });
      match(nodes);
    }
    number_collectives();
    return joined_;
  }

 private:
  const run::SpanType& type_of(size_t span) const {
    return timeline_.types[static_cast<size_t>(timeline_.spans[span].type)];
  }

  void index_spans() {
    for (size_t i = begin_; i < end_; ++i) {
      const int32_t lane = timeline_.details[i].lane;
      const int64_t correlation = timeline_.details[i].correlation;
      if (is_device(type_of(i))) {
        if (correlation >= 0) launched_[correlation].push_back(i);
        continue;
      }
      hosts_[lane][type_of(i).name].push_back(i);
      if (correlation >= 0) launches_[lane].push_back(i);
    }
  }

  /// The host lane that shares most operators with a thread of the trace, then name by name.
  void match(const std::vector<size_t>& nodes) {
    ByName names;
    for (const size_t node : nodes)
      names[trace_.nodes[node].name].push_back(node);
    const auto shared = [&](const ByName& spans) {
      size_t count = 0;
      for (const auto& [name, list] : names)
        if (const auto found = spans.find(name); found != spans.end())
          count += std::min(list.size(), found->second.size());
      return count;
    };
    const std::pair<const int32_t, ByName>* best = nullptr;
    size_t most = 0;
    for (const auto& lane : hosts_)
      if (const size_t count = shared(lane.second); count > most) {
        most = count;
        best = &lane;
      }
    for (const auto& [name, list] : names) {
      const auto spans = best ? best->second.find(name) : ByName::const_iterator{};
      if (!best || spans == best->second.end() || spans->second.size() != list.size()) {
        joined_.without += static_cast<int64_t>(list.size());
        continue;
      }
      for (size_t i = 0; i < list.size(); ++i)
        apply(trace_.nodes[list[i]], best->first, spans->second[i]);
    }
  }

  void apply(const ExecutionNode& node, int32_t lane, size_t host) {
    ++joined_.nodes;
    const bool talks = node.in_elements > 0 && collective_of(node.collective);
    if (!talks && node.flops == Flops()) return;
    const run::Span& outer = timeline_.spans[host];
    const auto& launches = launches_[lane];
    auto launch = std::lower_bound(
        launches.begin(), launches.end(), outer.begin,
        [&](size_t span, Instant begin) { return timeline_.spans[span].begin < begin; });
    bool flops_given = false;
    for (; launch != launches.end() && timeline_.spans[*launch].begin <= outer.end; ++launch) {
      const auto kernels = launched_.find(timeline_.details[*launch].correlation);
      if (kernels == launched_.end()) continue;
      for (const size_t kernel : kernels->second) {
        if (talks)
          add_collective(node, kernel);
        else if (!flops_given)
          flops_given = add_flops(node, kernel);
      }
    }
  }

  /// All of an operator's flops are its first matrix kernel's.
  bool add_flops(const ExecutionNode& node, size_t kernel) {
    if (type_of(kernel).kind != SpanKind::compute) return false;
    timeline_.spans[kernel].flops = node.flops;
    return true;
  }

  void add_collective(const ExecutionNode& node, size_t kernel) {
    if (type_of(kernel).kind != SpanKind::communication) return;
    run::SpanType type = type_of(kernel);
    const auto collective = collective_of(node.collective);
    if (!type.collective) type.collective = collective;
    run::Span& span = timeline_.spans[kernel];
    run::SpanDetail& detail = timeline_.details[kernel];
    span.type = timeline_.intern(type);
    detail.in_elements = node.in_elements;
    detail.out_elements = node.out_elements;
    const bool whole_is_out = collective == spec::Collective::all_gather && node.out_elements > 0;
    const int64_t elements = whole_is_out ? node.out_elements : node.in_elements;
    span.bytes = static_cast<double>(elements * node.element_bytes) * unit::B;
    if (detail.communicator < 0) detail.communicator = communicator_of(node);
    numbered_.push_back(kernel);
    ++joined_.collectives;
  }

  int32_t communicator_of(const ExecutionNode& node) {
    const run::Communicator group = node.group >= 0 ? trace_.groups[static_cast<size_t>(node.group)]
                                                    : run::Communicator{.name = "unnamed"};
    auto& all = timeline_.communicators;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& known) { return known.name == group.name; });
    if (found != all.end()) return static_cast<int32_t>(found - all.begin());
    all.push_back(group);
    return static_cast<int32_t>(all.size()) - 1;
  }

  /// Ranks run the collectives of a group in the same order: the n-th here is the n-th there.
  void number_collectives() {
    std::sort(numbered_.begin(), numbered_.end());
    std::map<int32_t, int64_t> next;
    for (const size_t kernel : numbered_) {
      run::SpanDetail& detail = timeline_.details[kernel];
      if (detail.sequence < 0) detail.sequence = next[detail.communicator]++;
    }
  }

  const ExecutionTrace& trace_;
  run::Timeline& timeline_;
  size_t begin_ = 0, end_ = 0;                                 // the rank's spans
  std::map<int32_t, ByName> hosts_;                            // lane -> operators
  std::map<int32_t, std::vector<size_t>> launches_;            // lane -> spans with a correlation
  std::unordered_map<int64_t, std::vector<size_t>> launched_;  // correlation -> device spans
  std::vector<size_t> numbered_;
  Joined joined_;
};

}  // namespace

Joined join(const ExecutionTrace& trace, int32_t rank, run::Timeline& timeline) {
  return Joiner(trace, rank, timeline).join();
}

}  // namespace triplepoint::trace
