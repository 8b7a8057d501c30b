// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/chakra.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <variant>

#include "triplepoint/spec/op.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/kernel_kind.h"

namespace triplepoint::trace::chakra {

std::vector<int64_t> begins_of(const TaskGraph& graph) {
  const size_t count = graph.durations_ns.size();
  std::vector<int32_t> missing(count, 0);
  std::vector<int64_t> ready(count, 0), begins(count, -1);
  auto needs = graph.needs;
  std::ranges::sort(needs, [](auto a, auto b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  for (const auto& [after, before] : needs)
    ++missing[as_size(after)];
  using Entry = std::pair<int64_t, int32_t>;  // ready, task
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  for (size_t i = 0; i < count; ++i)
    if (missing[i] == 0) waiting.emplace(0, static_cast<int32_t>(i));
  std::unordered_map<int32_t, int64_t> free_at;
  while (!waiting.empty()) {
    const auto [since, task] = waiting.top();
    waiting.pop();
    int64_t& free = free_at[graph.queues[as_size(task)]];
    const int64_t begin = std::max(since, free);
    begins[as_size(task)] = begin;
    free = begin + graph.durations_ns[as_size(task)];
    const auto before = [](const auto& need, int32_t t) { return need.second < t; };
    auto need = std::lower_bound(needs.begin(), needs.end(), task, before);
    for (; need != needs.end() && need->second == task; ++need) {
      const auto after = as_size(need->first);
      ready[after] = std::max(ready[after], free);
      if (--missing[after] == 0) waiting.emplace(ready[after], need->first);
    }
  }
  return begins;
}

}  // namespace triplepoint::trace::chakra

namespace triplepoint::trace {
namespace {

/// One field of a protobuf message. `number` holds a varint's value or the bits of a fixed one.
struct WireField {
  uint32_t field = 0;
  uint32_t wire_type = 0;  // 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  uint64_t number = 0;
  std::string_view bytes;
};

/// sint32 and sint64: 0, -1, 1, -2 are 0, 1, 2, 3 on the wire.
constexpr int64_t from_zigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1U) ^ -static_cast<int64_t>(value & 1U);
}

/// Takes one protobuf message apart, field by field. Source:
/// protobuf.dev/programming-guides/encoding. Never reads behind its end; a broken field ends the
/// message.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }
  bool is_broken() const { return broken_; }
  std::string_view rest() const { return rest_; }

  /// Nothing at the end of the message and where it is broken.
  std::optional<WireField> next() {
    if (at_end()) return std::nullopt;
    const std::optional<uint64_t> tag = varint();
    if (!tag) return std::nullopt;
    WireField field{.field = static_cast<uint32_t>(*tag >> 3U),
                    .wire_type = static_cast<uint32_t>(*tag & 7U)};
    if (field.field == 0) return fail();
    if (field.wire_type == 2) {
      const auto bytes = delimited();
      if (!bytes) return std::nullopt;
      field.bytes = *bytes;
      return field;
    }
    std::optional<uint64_t> number;
    if (field.wire_type == 0) number = varint();
    if (field.wire_type == 1) number = fixed(8);
    if (field.wire_type == 5) number = fixed(4);
    if (!number) return fail();  // groups have been deprecated for fifteen years
    field.number = *number;
    return field;
  }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
      const auto byte = static_cast<unsigned char>(rest_[i]);
      value |= static_cast<uint64_t>(byte & 0x7FU) << (7 * i);
      if (byte >= 0x80) continue;
      rest_.remove_prefix(i + 1);
      return value;
    }
    return fail();
  }

  /// A length and as many bytes.
  std::optional<std::string_view> delimited() {
    const std::optional<uint64_t> size = varint();
    if (!size) return std::nullopt;
    if (*size > rest_.size()) return fail();
    const std::string_view bytes = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return bytes;
  }

  /// The next `size` bytes, little endian; size is at most 8.
  std::optional<uint64_t> fixed(size_t size) {
    if (rest_.size() < size) return fail();
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    rest_.remove_prefix(size);
    return value;
  }

 private:
  std::nullopt_t fail() {
    broken_ = true;
    rest_ = {};
    return std::nullopt;
  }

  std::string_view rest_;
  bool broken_ = false;
};

/// A name and a value; of lists, which we need none of, no value. Unsigned numbers above 2^63 keep
/// their bits.
struct Attribute {
  std::string name;
  std::variant<std::monostate, int64_t, double, std::string> value;
};

/// By the field of AttributeProto: a single value is at an odd number, a list one above.
bool read_value(const WireField& field, Attribute& attribute) {
  enum Form : uint32_t { f64 = 3, f32 = 5, i32 = 7, s32 = 15, s64 = 17, sfixed32 = 23, text = 29 };
  if (field.field % 2 == 0) return field.wire_type == 2;
  if (field.field >= text) {
    attribute.value = std::string(field.bytes);
    return field.wire_type == 2;
  }
  if (field.field == f64)
    attribute.value = std::bit_cast<double>(field.number);
  else if (field.field == f32)
    attribute.value = double{std::bit_cast<float>(static_cast<uint32_t>(field.number))};
  else if (field.field == s32 || field.field == s64)
    attribute.value = from_zigzag(field.number);
  else if (field.field == i32 || field.field == sfixed32)
    attribute.value = int64_t{static_cast<int32_t>(field.number)};
  else
    attribute.value = static_cast<int64_t>(field.number);
  return field.wire_type != 2;
}

bool read_attribute(std::string_view bytes, std::vector<Attribute>& attributes) {
  Attribute attribute;
  WireReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->field == 1) attribute.name = field->bytes;
    if (field->field >= 3 && field->field <= 32 && !read_value(*field, attribute)) return false;
  }
  if (reader.is_broken()) return false;
  attributes.push_back(std::move(attribute));
  return true;
}

const Attribute* find(const std::vector<Attribute>& attributes, std::string_view name) {
  return find_in(attributes, name, &Attribute::name);
}

int64_t integer(const std::vector<Attribute>& attributes, const char* name, int64_t otherwise) {
  const Attribute* attribute = find(attributes, name);
  const auto* number = attribute ? std::get_if<int64_t>(&attribute->value) : nullptr;
  return number ? *number : otherwise;
}

/// Integers, too.
double real(const std::vector<Attribute>& attributes, const char* name) {
  const Attribute* attribute = find(attributes, name);
  const auto* number = attribute ? std::get_if<double>(&attribute->value) : nullptr;
  if (number != nullptr) return std::isfinite(*number) ? *number : 0;
  return as_real(integer(attributes, name, 0));
}

/// The first message of a file.
bool read_header(std::string_view bytes, std::vector<Attribute>& attributes) {
  WireReader reader(bytes);
  while (const auto field = reader.next()) {
    if ((field->field != 1 && field->field != 2) || field->wire_type != 2) return false;
    if (field->field == 2 && !read_attribute(field->bytes, attributes)) return false;
  }
  return !reader.is_broken();
}

enum class NodeType { invalid, metadata, memory_load, memory_store, compute, send, receive, all };

struct Node {
  uint64_t id = 0;
  std::string name;
  NodeType type = NodeType::invalid;
  std::vector<uint64_t> needs;  // data_deps
  uint64_t start_us = 0, duration_us = 0;
  std::vector<Attribute> attributes;
};

bool read_needs(const WireField& field, std::vector<uint64_t>& list) {
  if (field.wire_type == 0) {
    list.push_back(field.number);
    return true;
  }
  WireReader packed(field.bytes);
  while (!packed.at_end())
    if (const auto id = packed.varint()) list.push_back(*id);
  return !packed.is_broken();
}

bool read_field(const WireField& field, Node& node) {
  switch (field.field) {
    case 1:
      node.id = field.number;
      return true;
    case 2:
      node.name = field.bytes;
      return true;
    case 3:
      node.type = field.number <= 7 ? static_cast<NodeType>(field.number) : NodeType::invalid;
      return true;
    case 5:
      return read_needs(field, node.needs);
    case 6:
      node.start_us = field.number;
      return true;
    case 7:
      node.duration_us = field.number;
      return true;
    case 10:
      return read_attribute(field.bytes, node.attributes);
    default:
      return true;  // nothing that we need, or of a newer schema
  }
}

bool read_node(std::string_view bytes, Node& node) {
  node = {};
  WireReader reader(bytes);
  while (const auto field = reader.next())
    if (!read_field(*field, node)) return false;
  // Nodes without a type or a name would be nothing but memory.
  return !reader.is_broken() && (node.type != NodeType::invalid || !node.name.empty());
}

constexpr size_t most_graph_bytes = size_t{2} << 30U;
constexpr uint64_t longest_us = 1'000'000'000'000'000;  // 31 years, and 2001 as a Unix time
constexpr uint64_t latest_us = 4 * longest_us;          // the year 2096

bool is_communication(NodeType type) {
  return type == NodeType::send || type == NodeType::receive || type == NodeType::all;
}

/// By the schema's CollectiveCommType; none for those which we have no word for: reduce, gather,
/// scatter, barrier.
std::optional<spec::Collective> collective_in(const Node& node) {
  using enum spec::Collective;
  if (node.type != NodeType::all) return send_recv;
  switch (integer(node.attributes, "comm_type", -1)) {
    case 0:
      return all_reduce;
    case 2:
      return all_gather;
    case 5:
      return broadcast;
    case 6:
      return all_to_all;
    case 7:
    case 8:
      return reduce_scatter;
    case 1:
    case 3:
    case 4:
    case 9:
      return std::nullopt;
    default:
      return kernel_kind(node.name).collective;
  }
}

run::SpanType type_of(const Node& node) {
  run::SpanType type{.name = node.name};
  if (integer(node.attributes, "is_cpu_op", 0) != 0) {
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
    const bool counts_flops = integer(node.attributes, "num_ops", 0) > 0;
    if (type.kind == run::SpanKind::other && counts_flops) type.kind = run::SpanKind::compute;
  }
  return type;
}

int32_t rank_in(const std::vector<Attribute>& header, const ReadOptions& options) {
  if (options.rank) return *options.rank;
  const int64_t rank = integer(header, "rank", -1);
  if (rank >= 0 && rank < 1 << 20) return static_cast<int32_t>(rank);
  return options.rank_if_unknown.value_or(0);
}

/// A node that became a span, before it has its place in the timeline.
struct Item {
  run::Span span;
  run::SpanDetail detail;
  uint64_t id = 0;
  bool has_begin = false;
};

class ChakraReader {
 public:
  explicit ChakraReader(int32_t rank) : builder_("chakra"), rank_(rank) {}

  Trace read(std::string_view nodes) {
    bool is_truncated = false;
    for (Node node; !nodes.empty() && !is_truncated;) {
      WireReader reader(nodes);
      const auto message = reader.delimited();
      nodes = reader.rest();
      is_truncated = !message.has_value();
      if (!message || !read_node(*message, node))
        builder_.skip("a node is not valid protobuf or has neither name nor type");
      else if (node.type != NodeType::metadata)
        take(node);
    }
    if (is_truncated) builder_.truncated("the file ends inside of a node");
    if (std::ranges::none_of(items_, &Item::has_begin)) lay_out();
    for (const Item& item : items_)
      if (item.span.begin.nanoseconds() < 0)
        builder_.skip("a node needs itself, by way of others");
      else
        builder_.add(item.span, item.detail);
    return std::move(builder_).finish(std::nullopt);
  }

 private:
  void take(const Node& node) {
    if (node.start_us > latest_us || node.duration_us > longest_us)
      return builder_.skip(fmt::format("node {} begins or lasts beyond any clock", node.id));
    const run::SpanType type = type_of(node);
    Item item{.span = span_of(node), .id = node.id, .has_begin = node.start_us > 0};
    item.span.type = builder_.type(type);
    item.detail.lane = lane_of(node, type);
    if (const Attribute* group = find(node.attributes, "pg_name"))
      if (const auto* name = std::get_if<std::string>(&group->value); name && !name->empty())
        item.detail.communicator = builder_.communicator({.name = *name});
    for (const uint64_t id : node.needs)
      needs_.emplace_back(static_cast<int32_t>(items_.size()), id);
    items_.push_back(item);
  }

  run::Span span_of(const Node& node) const {
    run::Span span;
    span.rank = rank_;
    span.begin = Instant(static_cast<int64_t>(node.start_us) * 1000);
    span.end = Instant(static_cast<int64_t>(node.start_us + node.duration_us) * 1000);
    span.bytes =
        real(node.attributes, is_communication(node.type) ? "comm_size" : "tensor_size") * unit::B;
    span.flops = real(node.attributes, "num_ops") * unit::FLOP;
    return span;
  }

  int32_t lane_of(const Node& node, const run::SpanType& type) {
    const bool is_host = type.kind == run::SpanKind::host;
    const int64_t thread = integer(node.attributes, "tid", -1);
    const int64_t number = is_host ? thread : integer(node.attributes, "stream", thread);
    // Without any number, communication has its own queue, as in ASTRA-sim.
    const auto known = lanes_.try_emplace(
        std::pair(is_host, number >= 0 ? number : -1 - static_cast<int64_t>(type.stream)), -1);
    int32_t& lane = known.first->second;
    if (lane >= 0) return lane;
    constexpr const char* streams[] = {"compute", "communication", "host"};
    std::string name = fmt::format("{} {}", is_host ? "thread" : "stream", number);
    if (number < 0) name = streams[as_size(type.stream)];
    lane = builder_.lane({rank_, type.stream, std::max<int64_t>(number, 0), std::move(name)});
    return lane;
  }

  void lay_out() {
    chakra::TaskGraph graph;
    std::unordered_map<uint64_t, int32_t> index;
    for (const Item& item : items_) {
      index.emplace(item.id, static_cast<int32_t>(graph.queues.size()));
      graph.durations_ns.push_back(item.span.end.nanoseconds() - item.span.begin.nanoseconds());
      graph.queues.push_back(item.detail.lane);
    }
    for (const auto& [item, id] : needs_)  // what names no span (metadata, other files) is dropped
      if (const auto found = index.find(id); found != index.end() && found->second != item)
        graph.needs.emplace_back(item, found->second);
    const std::vector<int64_t> begins = begins_of(graph);
    for (size_t i = 0; i < items_.size(); ++i) {
      items_[i].span.begin = Instant(begins[i]);
      items_[i].span.end = Instant(begins[i] + graph.durations_ns[i]);
    }
    builder_.facts()["times"] = "laid_out";
  }

  TraceBuilder builder_;
  int32_t rank_;
  std::vector<Item> items_;
  std::vector<std::pair<int32_t, uint64_t>> needs_;    // which item needs which node
  std::map<std::pair<bool, int64_t>, int32_t> lanes_;  // by thread or stream
};

/// A brace and a line break are also the length and the first tag of a header.
bool begins_like_json(std::string_view head) {
  const size_t second = head.find_first_not_of(" \t\r\n", 1);
  const bool opens = head[0] == '{' || head[0] == '[';
  return opens && (second == std::string_view::npos || head[second] == '"' || head[second] == '{');
}

}  // namespace

bool looks_like_chakra(std::string_view head) {
  WireReader reader(head);
  const std::optional<uint64_t> size = reader.varint();
  if (!size) return false;
  std::vector<Attribute> header;
  if (*size == 0) return false;  // legal, but so would be any file that begins with a zero byte
  if (*size <= reader.rest().size()) return read_header(reader.rest().substr(0, *size), header);
  // The header is longer than what is shown of the file: does its first field look right?
  constexpr size_t shown = 512;  // of any file as long
  if (head.size() < shown) return false;
  WireReader inner(reader.rest());
  const auto tag = inner.varint();
  return tag && (*tag == (1U << 3U | 2U) || *tag == (2U << 3U | 2U)) && *size < 1U << 28U &&
         !begins_like_json(head);
}

Result<Trace> parse_chakra(std::string_view bytes, const ReadOptions& options) {
  WireReader reader(bytes);
  const auto message = reader.delimited();
  std::vector<Attribute> header;
  if (!message || !read_header(*message, header))
    return error(
        "not a Chakra execution trace (it does not begin with the header of one); "
        "try the .et files which the Chakra converter wrote");
  return ChakraReader(rank_in(header, options)).read(reader.rest());
}

Result<Trace> read_chakra(Input& input, const ReadOptions& options) {
  const std::string bytes = TPT_TRY(input.rest(most_graph_bytes));
  return parse_chakra(bytes, options);
}

}  // namespace triplepoint::trace
