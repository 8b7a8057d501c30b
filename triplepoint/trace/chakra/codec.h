// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/op.h"

namespace triplepoint::trace::chakra {

// The schema of Chakra execution traces. Source: mlcommons/chakra, schema/protobuf/et_def.proto.

enum class NodeType : int32_t {
  invalid = 0,
  metadata = 1,
  memory_load = 2,
  memory_store = 3,
  compute = 4,
  send = 5,
  receive = 6,
  collective = 7
};

enum class CollectiveType : int32_t {
  all_reduce = 0,
  reduce = 1,
  all_gather = 2,
  gather = 3,
  scatter = 4,
  broadcast = 5,
  all_to_all = 6,
  reduce_scatter = 7,
  reduce_scatter_block = 8,
  barrier = 9
};

/// None for those which we have no word for: reduce, gather, scatter, barrier.
std::optional<spec::Collective> collective_of(CollectiveType);
CollectiveType type_of(spec::Collective);

/// What the value of an attribute is on the wire. Each has a single form and, one field number
/// higher, a list.
enum class ValueForm : uint32_t {
  f64 = 3,
  f32 = 5,
  i32 = 7,
  i64 = 9,
  u32 = 11,
  u64 = 13,
  s32 = 15,
  s64 = 17,
  fixed32 = 19,
  fixed64 = 21,
  sfixed32 = 23,
  sfixed64 = 25,
  boolean = 27,
  text = 29,
  bytes = 31
};

/// A name and a value of one of the wire's thirty forms. Unsigned numbers above 2^63 keep their
/// bits.
struct Attribute {
  using Value = std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>,
                             std::vector<double>, std::vector<std::string>>;
  std::string name;
  ValueForm form = ValueForm::i64;
  Value value;

  std::optional<int64_t> integer() const;
  std::optional<double> real() const;  // integers, too
  std::string_view text() const;       // empty if it is none
  friend bool operator==(const Attribute&, const Attribute&) = default;
};

/// `fields` of GlobalMetadata, the first message of a file.
struct Header {
  std::string version;
  std::vector<Attribute> attributes;
  friend bool operator==(const Header&, const Header&) = default;
};

struct Node {
  uint64_t id = 0;
  std::string name;
  NodeType type = NodeType::invalid;
  std::vector<uint64_t> control_dependencies, data_dependencies;
  uint64_t start_us = 0, duration_us = 0;
  // inputs and outputs: values, shapes and types as text, as the PyTorch converter writes them
  struct Tensors {
    std::string values, shapes, types;
    friend bool operator==(const Tensors&, const Tensors&) = default;
  };
  Tensors inputs, outputs;
  std::vector<Attribute> attributes;

  /// Null if the node has no attribute of this name.
  const Attribute* find(std::string_view wanted) const;
  friend bool operator==(const Node&, const Node&) = default;
};

const Attribute* find_attribute(const std::vector<Attribute>&, std::string_view name);

/// Reads a Chakra execution trace node by node: messages with their length before each, a header
/// and then nodes. Source: mlcommons/chakra, src/third_party/utils/protolib.py (the framing).
class Decoder {
 public:
  /// An error if these bytes do not begin as such a file does.
  static Result<Decoder> open(std::string_view bytes);

  const Header& header() const { return header_; }
  /// The next node into `node`; false at the end. What cannot be read is counted and left out: a
  /// broken field ends its node, a broken length ends the file.
  bool next(Node& node);
  int64_t skipped() const { return skipped_; }
  /// The file ends inside of a message.
  bool is_truncated() const { return truncated_; }

 private:
  std::string_view rest_;
  Header header_;
  int64_t skipped_ = 0;
  bool truncated_ = false;
};

std::string encode(const Header&);
std::string encode(const Node&);

/// Whether these could be the first bytes of such a file.
bool looks_like_chakra(std::string_view head);

}  // namespace triplepoint::trace::chakra

namespace triplepoint::trace::chakra::word {

// Attributes that the PyTorch converter and ASTRA-sim know.
inline constexpr const char* is_cpu_op = "is_cpu_op";
inline constexpr const char* comm_type = "comm_type";
inline constexpr const char* comm_size = "comm_size";
inline constexpr const char* group_name = "pg_name";
inline constexpr const char* num_ops = "num_ops";
inline constexpr const char* tensor_size = "tensor_size";
inline constexpr const char* thread = "tid";
inline constexpr const char* device_stream = "stream";
inline constexpr const char* rank = "rank";

// Ours: what they have no place for.
inline constexpr const char* begin = "begin_ns";
inline constexpr const char* duration = "duration_ns";
inline constexpr const char* kind = "span_kind";
inline constexpr const char* queue = "span_stream";
inline constexpr const char* op_class = "op_class";
inline constexpr const char* collective = "collective";
inline constexpr const char* group = "group_kind";
inline constexpr const char* stage = "stage";
inline constexpr const char* microbatch = "microbatch";
inline constexpr const char* layer = "layer";
inline constexpr const char* wait = "wait_s";
inline constexpr const char* bytes = "bytes";
inline constexpr const char* flops = "flops";
inline constexpr const char* lane = "lane";
inline constexpr const char* communicator = "communicator";
inline constexpr const char* sequence = "sequence";
inline constexpr const char* correlation = "correlation";
inline constexpr const char* blocks = "blocks";
inline constexpr const char* threads_per_block = "threads_per_block";
inline constexpr const char* occupancy = "occupancy";
inline constexpr const char* in_elements = "in_elements";
inline constexpr const char* out_elements = "out_elements";

// In the header.
inline constexpr const char* epoch = "epoch_unix_ns";
inline constexpr const char* lane_streams = "lane_streams";
inline constexpr const char* lane_numbers = "lane_numbers";
inline constexpr const char* lane_names = "lane_names";
inline constexpr const char* communicator_names = "communicator_names";
inline constexpr const char* communicator_sizes = "communicator_sizes";
inline constexpr const char* communicator_ranks = "communicator_ranks";

}  // namespace triplepoint::trace::chakra::word
