// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/chakra.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/run/timeline.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/trace/chakra/codec.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {
namespace {

bool is_on_device(const run::Timeline& timeline, const run::Span& span) {
  const run::SpanKind kind = timeline.types[static_cast<size_t>(span.type)].kind;
  return kind <= run::SpanKind::other || kind == run::SpanKind::copy;
}

/// Where spans without a lane run: one queue per stream of a rank.
int64_t queue_of(const run::Timeline& timeline, size_t i) {
  if (!timeline.details.empty() && timeline.details[i].lane >= 0) return timeline.details[i].lane;
  const run::Span& span = timeline.spans[i];
  const auto stream = timeline.types[static_cast<size_t>(span.type)].stream;
  return -1 - (int64_t{span.rank} * 3 + static_cast<int64_t>(stream));
}

}  // namespace

Dependencies dependencies_of(const run::Timeline& timeline) {
  Dependencies found;
  std::map<int64_t, int32_t> last_in;                        // queue -> span
  std::map<std::pair<int32_t, int64_t>, int32_t> launch_of;  // rank, correlation -> host span
  const auto add = [&](int32_t before, size_t after, DependencyKind kind) {
    found.edges.push_back({before, static_cast<int32_t>(after), kind});
  };
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    const auto [last, is_first] =
        last_in.try_emplace(queue_of(timeline, i), static_cast<int32_t>(i));
    if (!is_first && timeline.spans[static_cast<size_t>(last->second)].end <= span.begin)
      add(last->second, i, DependencyKind::data);
    last->second = static_cast<int32_t>(i);
    if (timeline.details.empty() || timeline.details[i].correlation < 0) continue;
    const std::pair key(span.rank, timeline.details[i].correlation);
    if (!is_on_device(timeline, span)) {
      launch_of.try_emplace(key, static_cast<int32_t>(i));
    } else if (const auto launch = launch_of.find(key); launch != launch_of.end()) {
      add(launch->second, i, DependencyKind::control);
    }
  }
  std::sort(found.edges.begin(), found.edges.end(), by_after);
  return found;
}

}  // namespace triplepoint::trace

namespace triplepoint::trace::chakra {

std::vector<int64_t> begins_of(const TaskGraph& graph) {
  const size_t count = graph.durations_ns.size();
  std::vector<int32_t> missing(count, 0);
  std::vector<int64_t> ready(count, 0), begins(count, -1);
  auto needs = graph.needs;
  std::sort(needs.begin(), needs.end(), [](auto a, auto b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  for (const auto& [after, before] : needs)
    ++missing[static_cast<size_t>(after)];
  using Entry = std::pair<int64_t, int32_t>;  // ready, task
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  for (size_t i = 0; i < count; ++i)
    if (missing[i] == 0) waiting.emplace(0, static_cast<int32_t>(i));
  std::unordered_map<int32_t, int64_t> free_at;
  while (!waiting.empty()) {
    const auto [since, task] = waiting.top();
    waiting.pop();
    int64_t& free = free_at[graph.queues[static_cast<size_t>(task)]];
    const int64_t begin = std::max(since, free);
    begins[static_cast<size_t>(task)] = begin;
    free = begin + graph.durations_ns[static_cast<size_t>(task)];
    const auto before = [](const auto& need, int32_t t) { return need.second < t; };
    auto need = std::lower_bound(needs.begin(), needs.end(), task, before);
    for (; need != needs.end() && need->second == task; ++need) {
      const auto after = static_cast<size_t>(need->first);
      ready[after] = std::max(ready[after], free);
      if (--missing[after] == 0) waiting.emplace(ready[after], need->first);
    }
  }
  return begins;
}

}  // namespace triplepoint::trace::chakra

namespace triplepoint::trace {
namespace {

using chakra::Attribute;
using chakra::Node;
using chakra::NodeType;
using chakra::ValueForm;
namespace word = chakra::word;

bool is_host(run::SpanKind kind) {
  return kind == run::SpanKind::host || kind == run::SpanKind::pass || kind == run::SpanKind::step;
}

NodeType node_type_of(const run::SpanType& type) {
  if (type.kind == run::SpanKind::copy)
    return type.name.find("DtoH") != std::string::npos ? NodeType::memory_store
                                                       : NodeType::memory_load;
  if (type.kind != run::SpanKind::communication) return NodeType::compute;
  if (type.collective != spec::Collective::send_recv) return NodeType::collective;
  return type.name.find("ecv") != std::string::npos && type.name.find("end") == std::string::npos
             ? NodeType::receive
             : NodeType::send;
}

/// Amounts as whole numbers, for the programs that want them so.
std::optional<int64_t> whole(double amount) {
  if (!(amount >= 0.5 && amount < 9e18)) return std::nullopt;
  return std::llround(amount);
}

/// The nodes of one rank.
class ChakraWriter {
 public:
  ChakraWriter(const run::Timeline& timeline, int32_t rank, std::optional<int64_t> epoch)
      : timeline_(timeline), rank_(rank), epoch_(epoch.value_or(0)) {}

  std::string write(const Dependencies& dependencies) {
    const auto [first, last] = run::detail::items_of_rank(timeline_.spans, rank_);
    begin_ = first - timeline_.spans.data();
    end_ = last - timeline_.spans.data();
    std::string file = chakra::encode(header());
    auto edge =
        std::lower_bound(dependencies.edges.begin(), dependencies.edges.end(), begin_,
                         [](const Dependency& d, int64_t index) { return d.after < index; });
    for (int64_t i = begin_; i < end_; ++i) {
      Node node = node_of(static_cast<size_t>(i));
      for (; edge != dependencies.edges.end() && edge->after == i; ++edge)
        add_dependency(*edge, node);
      file += chakra::encode(node);
    }
    return file;
  }

 private:
  uint64_t id_of(int64_t span) const { return static_cast<uint64_t>(span - begin_) + 1; }

  void add_dependency(const Dependency& edge, Node& node) const {
    if (edge.before < begin_ || edge.before >= end_) return;
    auto& list =
        edge.kind == DependencyKind::data ? node.data_dependencies : node.control_dependencies;
    list.push_back(id_of(edge.before));
  }

  chakra::Header header() {
    std::vector<int64_t> streams, numbers, sizes;
    std::vector<std::string> names, groups, ranks;
    for (size_t i = 0; i < timeline_.lanes.size(); ++i) {
      const run::Lane& lane = timeline_.lanes[i];
      if (lane.rank != rank_) continue;
      lanes_[static_cast<int32_t>(i)] = static_cast<int64_t>(names.size());
      streams.push_back(static_cast<int64_t>(lane.stream));
      numbers.push_back(lane.number);
      names.push_back(lane.name);
    }
    for (const run::Communicator& group : timeline_.communicators) {
      groups.push_back(group.name);
      sizes.push_back(group.size);
      ranks.push_back(fmt::format("{}", fmt::join(group.ranks, ",")));
    }
    return {.version = "0.0.4",
            .attributes = {{word::rank, ValueForm::i64, int64_t{rank_}},
                           {word::epoch, ValueForm::i64, epoch_},
                           {word::lane_streams, ValueForm::i64, streams},
                           {word::lane_numbers, ValueForm::i64, numbers},
                           {word::lane_names, ValueForm::text, names},
                           {word::communicator_names, ValueForm::text, groups},
                           {word::communicator_sizes, ValueForm::i64, sizes},
                           {word::communicator_ranks, ValueForm::text, ranks}}};
  }

  Node node_of(size_t index) {
    const run::Span& span = timeline_.spans[index];
    const run::SpanType& type = timeline_.types[static_cast<size_t>(span.type)];
    const int64_t begin = span.begin.nanoseconds();
    const int64_t duration = span.end.nanoseconds() - begin;
    Node node;
    node.id = id_of(static_cast<int64_t>(index));
    node.name = type.name;
    node.type = node_type_of(type);
    node.start_us = begin > 0 ? static_cast<uint64_t>(begin / 1000) : 0;
    node.duration_us = static_cast<uint64_t>(duration / 1000);
    attributes_ = &node.attributes;
    add_for_others(span, type, node.type);
    add_integer(word::begin, begin);
    add_integer(word::duration, duration);
    add_type(type);
    add_numbers(span);
    if (!timeline_.details.empty()) add_detail(timeline_.details[index]);
    return node;
  }

  void add_for_others(const run::Span& span, const run::SpanType& type, NodeType node_type) {
    attributes_->push_back(
        {word::is_cpu_op, ValueForm::boolean, int64_t{is_host(type.kind) ? 1 : 0}});
    const auto bytes = whole(span.bytes / unit::B);
    if (node_type == NodeType::collective)
      add_integer(word::comm_type, static_cast<int64_t>(chakra::type_of(
                                       type.collective.value_or(spec::Collective::all_reduce))));
    if (type.kind == run::SpanKind::communication)
      add_integer(word::comm_size, bytes.value_or(0));
    else if (bytes)
      add_integer(word::tensor_size, *bytes);
    if (const auto flops = whole(span.flops / unit::FLOP)) add_integer(word::num_ops, *flops);
  }

  void add_type(const run::SpanType& type) {
    add_text(word::kind, word_of(span_kind_words, type.kind));
    add_text(word::queue, word_of(stream_words, type.stream));
    if (type.op_class != spec::OpClass::elementwise)
      add_text(word::op_class, spec::name_of(type.op_class));
    if (type.collective) add_text(word::collective, spec::name_of(*type.collective));
    if (type.group) add_text(word::group, spec::name_of(*type.group));
  }

  void add_numbers(const run::Span& span) {
    add_known(word::stage, span.stage);
    add_known(word::microbatch, span.microbatch);
    add_known(word::layer, span.layer);
    add_real(word::wait, span.wait / unit::s, 0);
    add_real(word::bytes, span.bytes / unit::B, 0);
    add_real(word::flops, span.flops / unit::FLOP, 0);
  }

  void add_detail(const run::SpanDetail& detail) {
    if (const auto lane = lanes_.find(detail.lane); lane != lanes_.end())
      add_integer(word::lane, lane->second);
    if (detail.communicator >= 0) {
      const auto& group = timeline_.communicators[static_cast<size_t>(detail.communicator)];
      add_text(word::group_name, group.name);
    }
    add_known(word::communicator, detail.communicator);
    add_known(word::sequence, detail.sequence);
    add_known(word::correlation, detail.correlation);
    add_known(word::blocks, detail.blocks);
    add_known(word::threads_per_block, detail.threads_per_block);
    add_real(word::occupancy, detail.occupancy, -1);
    add_known(word::in_elements, detail.in_elements);
    add_known(word::out_elements, detail.out_elements);
  }

  void add_integer(const char* name, int64_t value) {
    attributes_->push_back({name, ValueForm::i64, value});
  }
  void add_known(const char* name, int64_t value) {
    if (value != -1) add_integer(name, value);
  }
  void add_real(const char* name, double value, double unknown) {
    if (value != unknown) attributes_->push_back({name, ValueForm::f64, value});
  }
  void add_text(const char* name, std::string_view value) {
    attributes_->push_back({name, ValueForm::text, std::string(value)});
  }

  const run::Timeline& timeline_;
  int32_t rank_;
  int64_t epoch_;
  int64_t begin_ = 0, end_ = 0;       // the rank's spans
  std::map<int32_t, int64_t> lanes_;  // index in the timeline -> index in the header
  std::vector<Attribute>* attributes_ = nullptr;
};

}  // namespace

std::string write_chakra(const run::Timeline& timeline, const Dependencies& dependencies,
                         int32_t rank, std::optional<int64_t> epoch_unix_ns) {
  if (timeline.instances.empty())
    return ChakraWriter(timeline, rank, epoch_unix_ns).write(dependencies);
  const run::Timeline expanded = run::expand(timeline);
  return ChakraWriter(expanded, rank, epoch_unix_ns).write(dependencies_of(expanded));
}

}  // namespace triplepoint::trace
