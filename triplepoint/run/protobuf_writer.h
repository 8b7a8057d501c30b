// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace triplepoint::run {

/// Builds one protobuf message, field by field. Source: protobuf.dev/programming-guides/encoding.
class ProtobufWriter {
 public:
  ProtobufWriter& integer(uint32_t field, uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  ProtobufWriter& real(uint32_t field, double value) {
    return fixed64(field, std::bit_cast<uint64_t>(value));
  }
  ProtobufWriter& fixed64(uint32_t field, uint64_t bits) {
    tag(field, 1);
    for (int shift = 0; shift < 64; shift += 8)
      bytes_.push_back(static_cast<char>(bits >> shift));
    return *this;
  }
  ProtobufWriter& fixed32(uint32_t field, uint32_t bits) {
    tag(field, 5);
    for (int shift = 0; shift < 32; shift += 8)
      bytes_.push_back(static_cast<char>(bits >> shift));
    return *this;
  }
  ProtobufWriter& text(uint32_t field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufWriter& message(uint32_t field, const ProtobufWriter& inner) {
    return text(field, inner.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(uint32_t field, uint32_t wire_type) { varint(field << 3U | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7U)
      bytes_.push_back(static_cast<char>(value | 0x80U));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace triplepoint::run
