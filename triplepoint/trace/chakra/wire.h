// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::trace::chakra {

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

}  // namespace triplepoint::trace::chakra
