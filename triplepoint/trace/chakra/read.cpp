// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/chakra/chakra.h"
#include "triplepoint/trace/chakra/codec.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

namespace {

using chakra::Attribute;
using chakra::Node;
using chakra::NodeType;
namespace word = chakra::word;

constexpr size_t most_bytes = size_t{2} << 30U;
constexpr int64_t longest_us = 1'000'000'000'000'000;  // 31 years, and 2001 as a Unix time
constexpr int64_t latest_us = 4 * longest_us;          // the year 2096
constexpr int32_t most_ranks = 1 << 20;

int64_t integer(const Node& node, const char* name, int64_t otherwise) {
  const Attribute* attribute = node.find(name);
  return attribute ? attribute->integer().value_or(otherwise) : otherwise;
}
double real(const Node& node, const char* name, double otherwise) {
  const Attribute* attribute = node.find(name);
  const std::optional<double> value = attribute ? attribute->real() : std::nullopt;
  return value && std::isfinite(*value) ? *value : otherwise;
}
std::string_view text(const Node& node, const char* name) {
  const Attribute* attribute = node.find(name);
  return attribute ? attribute->text() : std::string_view();
}
int32_t small_integer(const Node& node, const char* name) {
  const int64_t value = integer(node, name, -1);
  return value >= -1 && value <= INT32_MAX ? static_cast<int32_t>(value) : -1;
}

bool is_communication(NodeType type) {
  return type == NodeType::send || type == NodeType::receive || type == NodeType::collective;
}

std::optional<spec::Collective> collective_in(const Node& node) {
  if (node.type == NodeType::send || node.type == NodeType::receive)
    return spec::Collective::send_recv;
  const int64_t type = integer(node, word::comm_type, -1);
  if (type >= 0 && type <= 9) return collective_of(static_cast<chakra::CollectiveType>(type));
  return kernel_kind(node.name).collective;
}

/// What the node is, from what every converter writes.
run::SpanType guess_type(const Node& node) {
  run::SpanType type{.name = node.name};
  if (integer(node, word::is_cpu_op, 0) != 0) {
    type.kind = run::SpanKind::host;
    type.stream = run::Stream::host;
  } else if (is_communication(node.type)) {
    type.kind = run::SpanKind::communication;
    type.stream = run::Stream::communication;
    type.op_class = spec::OpClass::communication;
    type.collective = collective_in(node);
  } else if (node.type == NodeType::memory_load || node.type == NodeType::memory_store) {
    type.kind = run::SpanKind::copy;
  } else {
    type = kernel_type(node.name);
    type.name = node.name;
    const bool counts_flops = integer(node, word::num_ops, 0) > 0;
    if (type.kind == run::SpanKind::other && counts_flops) type.kind = run::SpanKind::compute;
  }
  return type;
}

/// What the node is, from what our writer adds.
run::SpanType type_of(const Node& node) {
  run::SpanType type = guess_type(node);
  const auto kind = from_word<run::SpanKind>(span_kind_words, text(node, word::kind));
  if (!kind) return type;
  using namespace spec;
  type.kind = *kind;
  type.stream = from_word<run::Stream>(stream_words, text(node, word::queue)).value_or(type.stream);
  type.op_class = from_word<OpClass>(EnumNames<OpClass>::names, text(node, word::op_class))
                      .value_or(OpClass::elementwise);
  type.collective =
      from_word<Collective>(EnumNames<Collective>::names, text(node, word::collective));
  type.group = from_word<GroupKind>(EnumNames<GroupKind>::names, text(node, word::group));
  return type;
}

std::vector<int32_t> ranks_in(std::string_view list) {
  std::vector<int32_t> ranks;
  while (!list.empty()) {
    int32_t rank = 0;
    const auto [stop, fault] = std::from_chars(list.data(), list.data() + list.size(), rank);
    if (fault != std::errc() || rank < 0) break;
    ranks.push_back(rank);
    list.remove_prefix(std::min(list.size(), static_cast<size_t>(stop - list.data()) + 1));
  }
  return ranks;
}

template <class Item>
const std::vector<Item>& list_in(const chakra::Header& header, const char* name) {
  static const std::vector<Item> none;
  const Attribute* attribute = find_attribute(header.attributes, name);
  const auto* list = attribute ? std::get_if<std::vector<Item>>(&attribute->value) : nullptr;
  return list ? *list : none;
}

int32_t rank_in(const chakra::Header& header, const ReadOptions& options) {
  if (options.rank) return *options.rank;
  const Attribute* attribute = find_attribute(header.attributes, word::rank);
  const int64_t rank = attribute ? attribute->integer().value_or(-1) : -1;
  if (rank >= 0 && rank < most_ranks) return static_cast<int32_t>(rank);
  return options.rank_if_unknown.value_or(0);
}

/// A node that became a span, before it has its place in the timeline.
struct Item {
  run::Span span;
  run::SpanDetail detail;
  uint64_t id = 0;
  bool has_begin = false;
};
struct Need {
  int32_t item;  // which needs
  uint64_t id;   // whom
  DependencyKind kind;
};

class ChakraReader {
 public:
  ChakraReader(const chakra::Header& header, int32_t rank) : builder_("chakra"), rank_(rank) {
    const auto& groups = list_in<std::string>(header, word::communicator_names);
    const auto& sizes = list_in<int64_t>(header, word::communicator_sizes);
    const auto& ranks = list_in<std::string>(header, word::communicator_ranks);
    for (size_t i = 0; i < groups.size() && i < sizes.size() && i < ranks.size(); ++i)
      communicators_.push_back(builder_.communicator({.name = groups[i],
                                                      .ranks = ranks_in(ranks[i]),
                                                      .size = static_cast<int32_t>(sizes[i])}));
    if (const Attribute* epoch = find_attribute(header.attributes, word::epoch))
      epoch_ = epoch->integer();
    const auto& names = list_in<std::string>(header, word::lane_names);
    const auto& numbers = list_in<int64_t>(header, word::lane_numbers);
    const auto& streams = list_in<int64_t>(header, word::lane_streams);
    for (size_t i = 0; i < names.size() && i < numbers.size() && i < streams.size(); ++i) {
      const auto stream = static_cast<run::Stream>(std::clamp<int64_t>(streams[i], 0, 2));
      lanes_.push_back(builder_.lane({rank_, stream, numbers[i], names[i]}));
    }
  }

  ChakraTrace read(chakra::Decoder& decoder) {
    Node node;
    while (decoder.next(node))
      if (node.type != NodeType::metadata) take(node);
    for (int64_t i = 0; i < decoder.skipped(); ++i)
      builder_.skip("a node is not valid protobuf or has neither name nor type");
    if (decoder.is_truncated()) builder_.truncated("the file ends inside of a node");
    resolve_needs();
    const bool any_begin =
        std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.has_begin; });
    if (!any_begin) lay_out();
    return finish();
  }

 private:
  void take(const Node& node) {
    const int64_t begin = integer(node, word::begin, 0);
    if (node.start_us > latest_us || node.duration_us > longest_us ||
        std::abs(begin / 1000) > latest_us)
      return builder_.skip(fmt::format("node {} begins or lasts beyond any clock", node.id));
    Item item;
    item.id = node.id;
    item.span = span_of(node);
    item.has_begin = node.start_us > 0 || node.find(word::begin);
    const run::SpanType type = type_of(node);
    item.span.type = builder_.type(type);
    item.detail = detail_of(node, type);
    const auto index = static_cast<int32_t>(items_.size());
    for (const uint64_t id : node.control_dependencies)
      needs_.push_back({index, id, DependencyKind::control});
    for (const uint64_t id : node.data_dependencies)
      needs_.push_back({index, id, DependencyKind::data});
    items_.push_back(item);
  }

  run::Span span_of(const Node& node) const {
    run::Span span;
    span.rank = rank_;
    const int64_t begin = integer(node, word::begin, static_cast<int64_t>(node.start_us) * 1000);
    int64_t length = integer(node, word::duration, static_cast<int64_t>(node.duration_us) * 1000);
    if (length < 0 || length / 1000 > longest_us) length = 0;
    span.begin = Instant(begin);
    span.end = Instant(begin + length);
    span.stage = small_integer(node, word::stage);
    span.microbatch = small_integer(node, word::microbatch);
    span.layer = small_integer(node, word::layer);
    span.wait = real(node, word::wait, 0) * unit::s;
    const bool is_message = is_communication(node.type);
    const double bytes = real(node, is_message ? word::comm_size : word::tensor_size, 0);
    span.bytes = real(node, word::bytes, bytes) * unit::B;
    span.flops = real(node, word::flops, real(node, word::num_ops, 0)) * unit::FLOP;
    return span;
  }

  run::SpanDetail detail_of(const Node& node, const run::SpanType& type) {
    run::SpanDetail detail;
    detail.lane = lane_of(node, type);
    detail.communicator = communicator_of(node);
    detail.sequence = integer(node, word::sequence, -1);
    detail.correlation = integer(node, word::correlation, -1);
    detail.blocks = integer(node, word::blocks, -1);
    detail.threads_per_block = small_integer(node, word::threads_per_block);
    detail.occupancy = static_cast<float>(real(node, word::occupancy, -1));
    detail.in_elements = integer(node, word::in_elements, -1);
    detail.out_elements = integer(node, word::out_elements, -1);
    return detail;
  }

  int32_t lane_of(const Node& node, const run::SpanType& type) {
    const int64_t lane = integer(node, word::lane, -1);
    if (lane >= 0 && static_cast<size_t>(lane) < lanes_.size())
      return lanes_[static_cast<size_t>(lane)];
    if (!text(node, word::kind).empty()) return -1;  // ours, and without a lane
    return guess_lane(node, type);
  }

  int32_t guess_lane(const Node& node, const run::SpanType& type) {
    const bool is_host = type.kind == run::SpanKind::host;
    const int64_t thread = integer(node, word::thread, -1);
    const int64_t number = is_host ? thread : integer(node, word::device_stream, thread);
    // Without any number, communication has its own queue, as in ASTRA-sim.
    const auto known = guessed_.try_emplace(
        std::pair(is_host, number >= 0 ? number : -1 - static_cast<int64_t>(type.stream)), -1);
    int32_t& lane = known.first->second;
    if (lane >= 0) return lane;
    std::string name = fmt::format("{} {}", is_host ? "thread" : "stream", number);
    if (number < 0) name = word_of(stream_words, type.stream);
    lane = builder_.lane({rank_, type.stream, std::max<int64_t>(number, 0), std::move(name)});
    return lane;
  }

  int32_t communicator_of(const Node& node) {
    const int64_t known = integer(node, word::communicator, -1);
    if (known >= 0 && static_cast<size_t>(known) < communicators_.size())
      return communicators_[static_cast<size_t>(known)];
    const std::string_view name = text(node, word::group_name);
    if (name.empty()) return -1;
    return builder_.communicator({.name = std::string(name)});
  }

  /// Ids become indices; what names no span (metadata, other files) is dropped.
  void resolve_needs() {
    std::unordered_map<uint64_t, int32_t> index;
    for (size_t i = 0; i < items_.size(); ++i)
      if (!index.emplace(items_[i].id, static_cast<int32_t>(i)).second) ++doubles_;
    for (const Need& need : needs_)
      if (const auto found = index.find(need.id);
          found != index.end() && found->second != need.item)
        edges_.push_back({found->second, need.item, need.kind});
  }

  void lay_out() {
    chakra::TaskGraph graph;
    for (const Item& item : items_) {
      graph.durations_ns.push_back(item.span.end.nanoseconds() - item.span.begin.nanoseconds());
      graph.queues.push_back(item.detail.lane);
    }
    for (const Dependency& edge : edges_)
      if (edge.kind == DependencyKind::data) graph.needs.emplace_back(edge.after, edge.before);
    const std::vector<int64_t> begins = begins_of(graph);
    for (size_t i = 0; i < items_.size(); ++i) {
      items_[i].has_begin = begins[i] >= 0;
      items_[i].span.begin = Instant(begins[i]);
      items_[i].span.end = Instant(begins[i] + graph.durations_ns[i]);
    }
    builder_.facts()["times"] = "laid_out";
  }

  ChakraTrace finish() {
    std::vector<int32_t> order;
    for (size_t i = 0; i < items_.size(); ++i) {
      const bool waits_for_itself = !items_[i].has_begin && items_[i].span.begin.nanoseconds() < 0;
      if (waits_for_itself)
        builder_.skip("a node needs itself, by way of others");
      else
        order.push_back(static_cast<int32_t>(i));
    }
    // As the timeline will be sorted, so that indices here are indices there.
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return at(a).span.begin < at(b).span.begin; });
    std::vector<int32_t> place(items_.size(), -1);
    for (size_t i = 0; i < order.size(); ++i) {
      place[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
      builder_.add(at(order[i]).span, at(order[i]).detail);
    }
    if (doubles_ > 0) builder_.facts()["double_ids"] = std::to_string(doubles_);
    ChakraTrace result{.trace = std::move(builder_).finish(epoch_)};
    if (result.trace.timeline.spans.size() == order.size()) result.dependencies = placed(place);
    return result;
  }

  Dependencies placed(const std::vector<int32_t>& place) const {
    Dependencies result;
    for (const Dependency& edge : edges_) {
      const int32_t before = place[static_cast<size_t>(edge.before)];
      const int32_t after = place[static_cast<size_t>(edge.after)];
      if (before >= 0 && after >= 0) result.edges.push_back({before, after, edge.kind});
    }
    auto& edges = result.edges;
    std::sort(edges.begin(), edges.end(), by_after);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    return result;
  }

  const Item& at(int32_t index) const { return items_[static_cast<size_t>(index)]; }

  TraceBuilder builder_;
  int32_t rank_;
  std::vector<Item> items_;
  std::vector<Need> needs_;
  std::vector<Dependency> edges_;
  std::vector<int32_t> communicators_, lanes_;           // of the header
  std::map<std::pair<bool, int64_t>, int32_t> guessed_;  // lanes by thread or stream
  int64_t doubles_ = 0;
  std::optional<int64_t> epoch_;
};

}  // namespace

Result<ChakraTrace> parse_chakra(std::string_view bytes, const ReadOptions& options) {
  chakra::Decoder decoder = TPT_TRY(chakra::Decoder::open(bytes));
  return ChakraReader(decoder.header(), rank_in(decoder.header(), options)).read(decoder);
}

bool looks_like_chakra(std::string_view head) {
  return chakra::looks_like_chakra(head);
}

Result<Trace> read_chakra(Input& input, const ReadOptions& options) {
  const std::string bytes = TPT_TRY(input.rest(most_bytes));
  return TPT_TRY(parse_chakra(bytes, options)).trace;
}

}  // namespace triplepoint::trace
