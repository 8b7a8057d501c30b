// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::run {

/// Numbers and texts one after the other: whole numbers as variable-length integers of seven bits a
/// byte (signed ones zigzag), doubles as their eight bytes, texts behind their length.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& bytes) : bytes_(bytes) {}

  void count(uint64_t number) {
    for (; number >= 0x80; number >>= 7U)
      bytes_.push_back(static_cast<char>(number | 0x80U));
    bytes_.push_back(static_cast<char>(number));
  }
  void integer(int64_t number) {
    const auto bits = static_cast<uint64_t>(number);
    count((bits << 1U) ^ (0 - (bits >> 63U)));
  }
  void real(double number) {
    const auto bits = std::bit_cast<uint64_t>(number);
    for (unsigned shift = 0; shift < 64; shift += 8)
      bytes_.push_back(static_cast<char>(bits >> shift));
  }
  void text(std::string_view words) {
    count(words.size());
    bytes_.append(words);
  }
  void integer(const std::optional<int32_t>& number) {
    count(number ? 1 : 0);
    if (number) integer(int64_t{*number});
  }
  void real(const std::optional<double>& number) {
    count(number ? 1 : 0);
    if (number) real(*number);
  }

 private:
  std::string& bytes_;
};

/// Reads them back from any bytes: after the first that cannot be, everything is 0 and is_good() is
/// false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  bool is_good() const { return good_; }
  bool at_end() const { return !good_ || bytes_.empty(); }
  size_t bytes_left() const { return bytes_.size(); }

  uint64_t count() {
    uint64_t number = 0;
    for (unsigned shift = 0; shift <= 63 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      number |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return number;
    }
    return fail();
  }
  int64_t integer() {
    const uint64_t code = count();
    return static_cast<int64_t>((code >> 1U) ^ (0 - (code & 1U)));
  }
  double real() {
    if (bytes_.size() < 8) return static_cast<double>(fail());
    uint64_t bits = 0;
    for (unsigned i = 0; i < 8; ++i)
      bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(8);
    return std::bit_cast<double>(bits);
  }
  std::string_view text() {
    const uint64_t size = count();
    if (size > bytes_.size()) {
      fail();
      return {};
    }
    const std::string_view words = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return words;
  }
  int32_t narrow() {
    const int64_t number = integer();
    if (number != static_cast<int32_t>(number)) return static_cast<int32_t>(fail());
    return static_cast<int32_t>(number);
  }
  std::optional<int32_t> narrow_or_nothing() {
    return count() == 0 ? std::nullopt : std::optional(narrow());
  }
  std::optional<double> real_or_nothing() {
    return count() == 0 ? std::nullopt : std::optional(real());
  }
  /// A number below `limit`; 0 and not good otherwise.
  uint64_t below(uint64_t limit) {
    const uint64_t number = count();
    return number < limit ? number : fail();
  }
  uint64_t fail() {
    good_ = false;
    bytes_ = {};
    return 0;
  }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace triplepoint::run
