// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/store/chunk_codec.h"
#include "triplepoint/store/fields.h"

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
  template <class Value>
  void put(const Value& value) {
    if constexpr (std::is_same_v<Value, std::string>)
      text(value);
    else if constexpr (IsReal<Value>)
      real(real_of(value));
    else if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, bool>)
      count(static_cast<uint64_t>(value));
    else
      integer(integer_of(value));
  }
  /// Of enums the next number, 0 is none; others follow a number that says whether they are there.
  template <class Value>
  void put(const std::optional<Value>& value) {
    if constexpr (std::is_enum_v<Value>)
      return count(value ? static_cast<uint64_t>(*value) + 1 : 0);
    count(value ? 1 : 0);
    if (value) put(*value);
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
    if (bytes_.size() < 8) return as_real(fail());
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
  template <class Value>
  void get(Value& value) {
    bool possible = true;
    if constexpr (std::is_same_v<Value, std::string>)
      value = text();
    else if constexpr (IsReal<Value>)
      possible = set_number(value, real());
    else if constexpr (std::is_same_v<Value, bool>)
      value = count() != 0;
    else if constexpr (std::is_enum_v<Value>)
      value = static_cast<Value>(below(static_cast<uint64_t>(count_of<Value>)));
    else
      possible = set_number(value, integer());
    if (!possible) fail();
  }
  template <class Value>
  void get(std::optional<Value>& value) {
    value.reset();
    if constexpr (std::is_enum_v<Value>) {
      const uint64_t code = below(static_cast<uint64_t>(count_of<Value>) + 1);
      if (code > 0) value = static_cast<Value>(code - 1);
    } else if (count() != 0) {
      get(value.emplace());
    }
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

/// What the blocks of a growing run consist of. Part of the file format: a number never changes its
/// meaning, new ones may come.
enum class RecordKind : uint8_t {
  begin = 1,
  host = 2,
  anchor = 3,
  note = 4,
  fact = 5,
  device = 6,
  series = 7,
  span_type = 8,
  span = 9,
  step = 10,
  values = 11,   // of one series since the last block
  axis = 12,     // of a fold: time stamps, encoded
  chunk = 13,    // of a fold: values of one series at the times of one of the fold's axes
  number = 14,   // one of ProducerNumbers
  package = 15,  // on which device's power that of another one is counted
  core_wait = 16
};

/// Appends records to the bytes of a block.
class RecordWriter {
 public:
  explicit RecordWriter(std::string& bytes) : out_(bytes) {}

  void begin(const Manifest&);
  void host(int32_t node, std::string_view name);
  void add(const ClockAnchor&);
  void note(std::string_view text);
  void fact(std::string_view key, std::string_view value);
  void number(std::string_view key, std::optional<int64_t> whole, std::optional<double> real);
  void core_wait(int32_t rank, Seconds wait);
  void add(size_t position, const Device&);
  void add(const Series& without_values, const SeriesSource* source);
  void add(const SpanType&);
  void add(const Span&);
  void add(const StepRecord&);
  struct Values {
    uint64_t series = 0;
    const int64_t* times = nullptr;
    const double* values = nullptr;
    size_t count = 0;
  };
  /// Times equal to those of the last record are not written again.
  void add(const Values&);
  void axis(const Chunk&);
  void chunk(uint64_t series, uint64_t axis, const Chunk&);

 private:
  void kind(RecordKind kind) { out_.count(static_cast<uint64_t>(kind)); }
  void encoded(const Chunk&);

  ByteWriter out_;
  std::vector<int64_t> last_times_;
};

/// Gets what the records of a block say. Indexes are in range, numbers possible.
class RecordVisitor {
 public:
  RecordVisitor() = default;
  RecordVisitor(const RecordVisitor&) = delete;
  RecordVisitor& operator=(const RecordVisitor&) = delete;
  virtual ~RecordVisitor() = default;

  virtual void take(const Span&) = 0;
  virtual void take(const StepRecord&) = 0;
  virtual void values(size_t series, const std::vector<int64_t>& times,
                      const std::vector<double>& values) = 0;
  virtual void axis(const Chunk&) = 0;
  virtual void chunk(size_t series, size_t axis_of_fold, const Chunk&) = 0;
};

/// Reads blocks one after the other. What is small and needed to understand the rest is kept here:
/// manifest, devices, series without values, sources, span types.
class RecordReader {
 public:
  /// False if the bytes are not what a writer wrote; what was read before stays.
  bool read(std::string_view block, RecordVisitor& visitor);

  /// Devices, series, sources, types of spans as known so far.
  const Run& head() const { return head_; }

 private:
  bool read_record(ByteReader& in, RecordVisitor& visitor);
  void read_manifest_record(RecordKind kind, ByteReader& in);
  void read_number(ByteReader& in);
  void read_device(RecordKind kind, ByteReader& in);
  void read_series(ByteReader& in);
  void read_span(ByteReader& in, RecordVisitor& visitor);
  void read_values(ByteReader& in, RecordVisitor& visitor);
  void read_chunk(RecordKind kind, ByteReader& in, RecordVisitor& visitor);

  Run head_;
  std::vector<int64_t> times_;
  std::vector<double> values_;
  uint64_t axes_ = 0;  // of the block
};

}  // namespace triplepoint::run
