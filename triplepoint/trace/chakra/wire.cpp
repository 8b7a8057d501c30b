// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/wire.h"

namespace triplepoint::trace::chakra {

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

}  // namespace triplepoint::trace::chakra
