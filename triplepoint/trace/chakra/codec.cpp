// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/codec.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/run/protobuf_writer.h"

namespace triplepoint::trace::chakra {

std::optional<spec::Collective> collective_of(CollectiveType type) {
  switch (type) {
    case CollectiveType::all_reduce:
      return spec::Collective::all_reduce;
    case CollectiveType::all_gather:
      return spec::Collective::all_gather;
    case CollectiveType::broadcast:
      return spec::Collective::broadcast;
    case CollectiveType::all_to_all:
      return spec::Collective::all_to_all;
    case CollectiveType::reduce_scatter:
    case CollectiveType::reduce_scatter_block:
      return spec::Collective::reduce_scatter;
    case CollectiveType::reduce:
    case CollectiveType::gather:
    case CollectiveType::scatter:
    case CollectiveType::barrier:
      break;
  }
  return std::nullopt;
}

CollectiveType type_of(spec::Collective collective) {
  switch (collective) {
    case spec::Collective::all_gather:
      return CollectiveType::all_gather;
    case spec::Collective::reduce_scatter:
      return CollectiveType::reduce_scatter;
    case spec::Collective::all_to_all:
      return CollectiveType::all_to_all;
    case spec::Collective::broadcast:
      return CollectiveType::broadcast;
    case spec::Collective::all_reduce:
    case spec::Collective::send_recv:  // its own node type
      break;
  }
  return CollectiveType::all_reduce;
}

std::optional<int64_t> Attribute::integer() const {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  return std::nullopt;
}

std::optional<double> Attribute::real() const {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view Attribute::text() const {
  const auto* text = std::get_if<std::string>(&value);
  return text ? std::string_view(*text) : std::string_view();
}

const Attribute* find_attribute(const std::vector<Attribute>& attributes, std::string_view name) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const Attribute& a) { return a.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

const Attribute* Node::find(std::string_view wanted) const {
  return find_attribute(attributes, wanted);
}

namespace {

/// One field of a protobuf message. `number` holds a varint's value or the bits of a fixed one.
struct WireField {
  uint32_t field = 0;
  uint32_t wire_type = 0;  // 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  uint64_t number = 0;
  std::string_view bytes;
};

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
  std::optional<WireField> next();
  std::optional<uint64_t> varint();
  /// A length and as many bytes.
  std::optional<std::string_view> delimited();
  /// The next `size` bytes, little endian; size is at most 8.
  std::optional<uint64_t> fixed(size_t size);

 private:
  std::nullopt_t fail() {
    broken_ = true;
    rest_ = {};
    return std::nullopt;
  }

  std::string_view rest_;
  bool broken_ = false;
};

inline void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7U)
    bytes.push_back(static_cast<char>(value | 0x80U));
  bytes.push_back(static_cast<char>(value));
}

/// sint32 and sint64: 0, -1, 1, -2 are 0, 1, 2, 3 on the wire.
constexpr int64_t from_zigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1U) ^ -static_cast<int64_t>(value & 1U);
}
constexpr uint64_t to_zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1U) ^ static_cast<uint64_t>(value >> 63);
}

std::optional<uint64_t> WireReader::varint() {
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

std::optional<std::string_view> WireReader::delimited() {
  const std::optional<uint64_t> size = varint();
  if (!size) return std::nullopt;
  if (*size > rest_.size()) return fail();
  const std::string_view bytes = rest_.substr(0, *size);
  rest_.remove_prefix(*size);
  return bytes;
}

std::optional<uint64_t> WireReader::fixed(size_t size) {
  if (rest_.size() < size) return fail();
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
  rest_.remove_prefix(size);
  return value;
}

std::optional<WireField> WireReader::next() {
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

bool is_real(ValueForm form) {
  return form == ValueForm::f64 || form == ValueForm::f32;
}
bool is_text(ValueForm form) {
  return form == ValueForm::text || form == ValueForm::bytes;
}
/// Bytes of one number of this form; 0 for varints and texts.
size_t fixed_size(ValueForm form) {
  if (form == ValueForm::f64 || form == ValueForm::fixed64 || form == ValueForm::sfixed64) return 8;
  if (form == ValueForm::f32 || form == ValueForm::fixed32 || form == ValueForm::sfixed32) return 4;
  return 0;
}

double real_from(ValueForm form, uint64_t bits) {
  if (form == ValueForm::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return std::bit_cast<double>(bits);
}

int64_t integer_from(ValueForm form, uint64_t bits) {
  switch (form) {
    case ValueForm::s32:
    case ValueForm::s64:
      return from_zigzag(bits);
    case ValueForm::i32:
    case ValueForm::sfixed32:
      return static_cast<int32_t>(bits);
    case ValueForm::boolean:
      return bits != 0 ? 1 : 0;
    default:
      return static_cast<int64_t>(bits);
  }
}

std::optional<uint64_t> next_number(WireReader& packed, ValueForm form) {
  const size_t size = fixed_size(form);
  return size == 0 ? packed.varint() : packed.fixed(size);
}

/// What a list's field 1 has held so far; only the vector of its form is filled.
struct ListItems {
  std::vector<std::string> texts;
  std::vector<int64_t> integers;
  std::vector<double> reals;

  void add(ValueForm form, uint64_t bits) {
    if (is_real(form))
      reals.push_back(real_from(form, bits));
    else
      integers.push_back(integer_from(form, bits));
  }
  bool add_packed(ValueForm form, std::string_view bytes) {
    WireReader packed(bytes);
    while (!packed.at_end())
      if (const auto number = next_number(packed, form)) add(form, *number);
    return !packed.is_broken();
  }
};

/// A list is a message whose field 1 is repeated, packed or not.
bool read_list(ValueForm form, std::string_view bytes, Attribute& attribute) {
  ListItems items;
  WireReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->field != 1) continue;
    if (field->wire_type != 2)
      items.add(form, field->number);
    else if (is_text(form))
      items.texts.emplace_back(field->bytes);
    else if (!items.add_packed(form, field->bytes))
      return false;
  }
  if (is_text(form))
    attribute.value = std::move(items.texts);
  else if (is_real(form))
    attribute.value = std::move(items.reals);
  else
    attribute.value = std::move(items.integers);
  return !reader.is_broken();
}

bool read_value(const WireField& field, Attribute& attribute) {
  const bool is_list = field.field % 2 == 0;
  attribute.form = static_cast<ValueForm>(is_list ? field.field - 1 : field.field);
  if (is_list) return field.wire_type == 2 && read_list(attribute.form, field.bytes, attribute);
  if (is_text(attribute.form))
    attribute.value = std::string(field.bytes);
  else if (is_real(attribute.form))
    attribute.value = real_from(attribute.form, field.number);
  else
    attribute.value = integer_from(attribute.form, field.number);
  return is_text(attribute.form) == (field.wire_type == 2);
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

bool read_dependencies(const WireField& field, std::vector<uint64_t>& list) {
  if (field.wire_type == 0) {
    list.push_back(field.number);
    return true;
  }
  WireReader packed(field.bytes);
  while (!packed.at_end())
    if (const auto id = packed.varint()) list.push_back(*id);
  return !packed.is_broken();
}

bool read_tensors(std::string_view bytes, Node::Tensors& tensors) {
  WireReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->field == 1) tensors.values = field->bytes;
    if (field->field == 2) tensors.shapes = field->bytes;
    if (field->field == 3) tensors.types = field->bytes;
  }
  return !reader.is_broken();
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
    case 4:
      return read_dependencies(field, node.control_dependencies);
    case 5:
      return read_dependencies(field, node.data_dependencies);
    case 6:
      node.start_us = field.number;
      return true;
    case 7:
      node.duration_us = field.number;
      return true;
    case 8:
      return read_tensors(field.bytes, node.inputs);
    case 9:
      return read_tensors(field.bytes, node.outputs);
    case 10:
      return read_attribute(field.bytes, node.attributes);
    default:
      return true;  // of a newer schema
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

bool read_header(std::string_view bytes, Header& header) {
  WireReader reader(bytes);
  while (const auto field = reader.next()) {
    if ((field->field != 1 && field->field != 2) || field->wire_type != 2) return false;
    if (field->field == 1) header.version = field->bytes;
    if (field->field == 2 && !read_attribute(field->bytes, header.attributes)) return false;
  }
  return !reader.is_broken();
}

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
  Header header;
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

Result<Decoder> Decoder::open(std::string_view bytes) {
  WireReader reader(bytes);
  const auto message = reader.delimited();
  Decoder decoder;
  if (!message || !read_header(*message, decoder.header_))
    return error(
        "not a Chakra execution trace (it does not begin with the header of one); "
        "try the .et files which the Chakra converter wrote");
  decoder.rest_ = reader.rest();
  return decoder;
}

bool Decoder::next(Node& node) {
  while (!rest_.empty()) {
    WireReader reader(rest_);
    const auto message = reader.delimited();
    rest_ = reader.rest();
    if (!message) {
      truncated_ = true;
      ++skipped_;
      return false;
    }
    if (read_node(*message, node)) return true;
    ++skipped_;
  }
  return false;
}

namespace {

using run::ProtobufWriter;

void write_number(ProtobufWriter& writer, uint32_t field, ValueForm form, int64_t value) {
  const bool is_signed_form = form == ValueForm::s32 || form == ValueForm::s64;
  const size_t size = fixed_size(form);
  if (size == 8)
    writer.real(field, std::bit_cast<double>(value));
  else if (size == 4)
    writer.fixed32(field, static_cast<uint32_t>(value));
  else
    writer.integer(field, is_signed_form ? to_zigzag(value) : static_cast<uint64_t>(value));
}

void write_real(ProtobufWriter& writer, uint32_t field, ValueForm form, double value) {
  if (form == ValueForm::f64)
    writer.real(field, value);
  else
    writer.fixed32(field, std::bit_cast<uint32_t>(static_cast<float>(value)));
}

/// Visits the alternatives of a value; lists become a message of field 1.
struct ValueWriter {
  ProtobufWriter& writer;
  const Attribute& attribute;
  uint32_t single = static_cast<uint32_t>(attribute.form);

  void operator()(std::monostate) const {}
  void operator()(int64_t value) const { write_number(writer, single, attribute.form, value); }
  void operator()(double value) const { write_real(writer, single, attribute.form, value); }
  void operator()(const std::string& value) const { writer.text(single, value); }
  template <class Item>
  void operator()(const std::vector<Item>& values) const {
    ProtobufWriter list;
    for (const Item& value : values)
      ValueWriter{list, attribute, 1}(value);
    writer.message(single + 1, list);
  }
};

ProtobufWriter attribute_message(const Attribute& attribute) {
  ProtobufWriter writer;
  writer.text(1, attribute.name);
  std::visit(ValueWriter{writer, attribute}, attribute.value);
  return writer;
}

void write_dependencies(ProtobufWriter& writer, uint32_t field, const std::vector<uint64_t>& ids) {
  if (ids.empty()) return;
  std::string packed;
  for (const uint64_t id : ids)
    append_varint(packed, id);
  writer.text(field, packed);
}

void write_tensors(ProtobufWriter& writer, uint32_t field, const Node::Tensors& tensors) {
  if (tensors == Node::Tensors{}) return;
  ProtobufWriter message;
  message.text(1, tensors.values).text(2, tensors.shapes).text(3, tensors.types);
  writer.message(field, message);
}

std::string with_length(const ProtobufWriter& message) {
  std::string framed;
  append_varint(framed, message.bytes().size());
  return framed + message.bytes();
}

}  // namespace

std::string encode(const Header& header) {
  ProtobufWriter writer;
  if (!header.version.empty()) writer.text(1, header.version);
  for (const Attribute& attribute : header.attributes)
    writer.message(2, attribute_message(attribute));
  return with_length(writer);
}

std::string encode(const Node& node) {
  ProtobufWriter writer;
  writer.integer(1, node.id).text(2, node.name);
  writer.integer(3, static_cast<uint64_t>(node.type));
  write_dependencies(writer, 4, node.control_dependencies);
  write_dependencies(writer, 5, node.data_dependencies);
  if (node.start_us != 0) writer.integer(6, node.start_us);
  if (node.duration_us != 0) writer.integer(7, node.duration_us);
  write_tensors(writer, 8, node.inputs);
  write_tensors(writer, 9, node.outputs);
  for (const Attribute& attribute : node.attributes)
    writer.message(10, attribute_message(attribute));
  return with_length(writer);
}

}  // namespace triplepoint::trace::chakra
