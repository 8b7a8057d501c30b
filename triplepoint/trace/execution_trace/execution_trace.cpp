// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/execution_trace/execution_trace.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "triplepoint/run/timeline.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"

namespace triplepoint::trace {
namespace {

constexpr size_t most_nodes = size_t{1} << 26U;

std::vector<double> shape_of(JsonView shape) {
  std::vector<double> sizes;
  shape.for_each([&](JsonView size) { sizes.push_back(size.real_or(0)); });
  return sizes;
}

/// 2 m n k of a product [.., m, k] x [.., k, n]; 0 if these are no such shapes.
double product_flops(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) return 0;
  double flops = 2 * b.back();
  for (const double size : a)
    flops *= size;
  return flops;
}

/// By the shapes of an operator's inputs.
double flops_of(std::string_view name, JsonView shapes) {
  if (name == "aten::mm" || name == "aten::bmm")
    return product_flops(shape_of(shapes.at(0)), shape_of(shapes.at(1)));
  if (name == "aten::addmm" || name == "aten::baddbmm")
    return product_flops(shape_of(shapes.at(1)), shape_of(shapes.at(2)));
  return 0;
}

/// Elements and bytes of one of the first tensor in a list of values: [id, storage, offset,
/// elements, bytes of one, device], or a list of such.
struct TensorSize {
  int64_t elements = -1, element_bytes = 0;
};
TensorSize first_tensor(JsonView values) {
  JsonView tensor = values.at(size_t{0});
  if (tensor.at(size_t{0}).is_array()) tensor = tensor.at(size_t{0});
  if (!tensor.at(5).text().empty())
    return {tensor.at(3).integer_or(-1), tensor.at(4).integer_or(0)};
  return {};
}

class NodeParser {
 public:
  explicit NodeParser(ExecutionTrace& trace) : trace_(trace) {}

  void parse(JsonView json) {
    ExecutionNode node;
    node.id = json.at("id").integer_or(-1);
    node.name = json.at("name").text();
    if (node.id < 0 || node.name.empty())
      return note_skipped(trace_.skipped, "a node has no id or no name");
    const JsonView attributes = json.at("attrs");
    if (attributes.is_array()) {
      with_attributes(json, attributes, node);
    } else {
      flat(json, node);
    }
    trace_.nodes.push_back(std::move(node));
  }

 private:
  /// 1.0.x: everything is a member; collectives are told by the values of record_param_comms.
  void flat(JsonView json, ExecutionNode& node) {
    node.parent = json.at("parent").integer_or(json.at("ctrl_deps").integer_or(-1));
    node.record_function_id = json.at("rf_id").integer_or(-1);
    node.sequence = json.at("seq_id").integer_or(-1);
    node.thread = static_cast<int32_t>(json.at("tid").integer_or(-1));
    node.flops = flops_of(node.name, json.at("input_shapes")) * unit::FLOP;
    if (node.name == "record_param_comms")
      comms_of_values(json.at("inputs"), json.at("outputs"), node);
  }

  /// The first text among the values is the collective's name, whatever the year.
  void comms_of_values(JsonView inputs, JsonView outputs, ExecutionNode& node) {
    inputs.for_each([&](JsonView value) {
      if (node.collective.empty()) node.collective = value.text();
    });
    if (node.collective == "<None>") node.collective.clear();
    const TensorSize in = first_tensor(inputs), out = first_tensor(outputs);
    node.in_elements = in.elements;
    node.out_elements = out.elements;
    node.element_bytes = static_cast<int>(std::clamp<int64_t>(in.element_bytes, 0, 16));
  }

  static void take_attribute(std::string_view name, JsonView value, ExecutionNode& node) {
    if (name == "rf_id") node.record_function_id = value.integer_or(-1);
    if (name == "seq_id") node.sequence = value.integer_or(-1);
    if (name == "tid") node.thread = static_cast<int32_t>(value.integer_or(-1));
    if (name == "collective_name") node.collective = value.text();
    if (name == "in_msg_nelems") node.in_elements = value.integer_or(-1);
    if (name == "out_msg_nelems") node.out_elements = value.integer_or(-1);
    if (name == "dtype") node.element_bytes = element_size(value.text());
  }

  /// 1.1.x: a list of {name, type, value}.
  void with_attributes(JsonView json, JsonView attributes, ExecutionNode& node) {
    node.parent = json.at("ctrl_deps").integer_or(-1);
    run::Communicator group;
    attributes.for_each([&](JsonView attribute) {
      const std::string_view name = attribute.at("name").text();
      const JsonView value = attribute.at("value");
      take_attribute(name, value, node);
      if (name == "pg_name") group.name = value.text();
      if (name == "pg_size") group.size = static_cast<int32_t>(value.integer_or(0));
    });
    node.flops = flops_of(node.name, json.at("inputs").at("shapes")) * unit::FLOP;
    if (!node.collective.empty() && !group.name.empty()) node.group = group_of(group);
    if (node.name == "## process_group:init ##") take_groups(json.at("inputs").at("values"));
  }

  int32_t group_of(const run::Communicator& group) {
    const auto found = std::find_if(trace_.groups.begin(), trace_.groups.end(),
                                    [&](const auto& known) { return known.name == group.name; });
    if (found != trace_.groups.end()) return static_cast<int32_t>(found - trace_.groups.begin());
    trace_.groups.push_back(group);
    return static_cast<int32_t>(trace_.groups.size()) - 1;
  }

  /// The value is JSON in a text: [{"pg_name": "0", "ranks": [], "group_size": 2, ...}].
  void take_groups(JsonView values) {
    JsonRecord inner;
    const auto groups = inner.parse(values.at(size_t{0}).text());
    if (!groups) return;
    groups->for_each([&](JsonView json) {
      run::Communicator group{.name = std::string(json.at("pg_name").text()),
                              .size = static_cast<int32_t>(json.at("group_size").integer_or(0))};
      json.at("ranks").for_each(
          [&](JsonView rank) { group.ranks.push_back(static_cast<int32_t>(rank.integer_or(-1))); });
      const auto index = static_cast<size_t>(group_of(group));
      trace_.groups[index] = group;
    });
  }

  ExecutionTrace& trace_;
};

bool is_schema(std::string_view schema) {
  return schema.starts_with("1.");
}

}  // namespace

Result<ExecutionTrace> parse_execution_trace(Input& input) {
  ExecutionTrace trace;
  NodeParser nodes(trace);
  JsonWalk walk(input, {"", ".nodes"});
  JsonItem item;
  JsonRecord record;
  while (TPT_TRY(walk.next(item))) {
    const auto json = record.parse(item.text);
    if (!json) {
      note_skipped(trace.skipped, "a node is not valid JSON");
    } else if (item.path == ".schema") {
      trace.schema = json->text();
    } else if (item.path == ".pid") {
      trace.process = json->integer_or(-1);
    } else if (item.path == ".nodes[]" && trace.nodes.size() < most_nodes) {
      nodes.parse(*json);
    }
  }
  if (!is_schema(trace.schema))
    return error(
        fmt::format("{}: not a PyTorch execution trace (its schema is \"{}\"); known are 1.0.x "
                    "and 1.1.x",
                    input.name(), trace.schema));
  if (walk.is_truncated()) {
    trace.skipped.truncated = true;
    note_reason(trace.skipped, "the file ends before its nodes do");
  }
  trace.skipped.events += walk.broken();
  return trace;
}

bool looks_like_execution_trace(std::string_view head) {
  const auto has = [&](std::string_view word) { return head.find(word) != std::string_view::npos; };
  return has("\"schema\"") && has("\"nodes\"") && (has("\"rf_id\"") || has("[pytorch|profiler|"));
}

Result<Trace> read_execution_trace(Input& input, const ReadOptions&) {
  const ExecutionTrace trace = TPT_TRY(parse_execution_trace(input));
  return error(
      fmt::format("{} is a PyTorch execution trace of {} operators (it has operators but no "
                  "times); give it together with the Kineto trace of the same steps",
                  input.name(), trace.nodes.size()));
}

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

  JoinCounts join() {
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
  JoinCounts joined_;
};

}  // namespace

JoinCounts join(const ExecutionTrace& trace, int32_t rank, run::Timeline& timeline) {
  return Joiner(trace, rank, timeline).join();
}

}  // namespace triplepoint::trace
