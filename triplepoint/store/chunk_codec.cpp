// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/chunk_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <zstd.h>

#include "triplepoint/base/result.h"

namespace triplepoint::run {

namespace {

constexpr int compression_level = 3;
constexpr size_t most_varint_bytes = 10;
constexpr std::array<double, 10> powers_of_ten = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};

uint64_t zigzag(uint64_t difference) {
  return (difference << 1U) ^ (0 - (difference >> 63U));
}
uint64_t unzigzag(uint64_t code) {
  return (code >> 1U) ^ (0 - (code & 1U));
}
size_t varint_size(uint64_t code) {
  return (static_cast<size_t>(std::bit_width(code | 1U)) + 6) / 7;
}
uint64_t bits(int64_t value) {
  return static_cast<uint64_t>(value);
}

/// Differences are taken modulo 2^64, so that no pair of values overflows.
class Differences {
 public:
  explicit Differences(ChunkCodec codec) : twice_(codec == ChunkCodec::delta_of_delta) {}
  uint64_t next(int64_t value) {
    const uint64_t difference = bits(value) - last_;
    const uint64_t result = twice_ ? difference - last_difference_ : difference;
    last_ = bits(value);
    last_difference_ = difference;
    return zigzag(result);
  }
  int64_t value_of(uint64_t code) {
    last_difference_ = unzigzag(code) + (twice_ ? last_difference_ : 0);
    last_ += last_difference_;
    return static_cast<int64_t>(last_);
  }

 private:
  bool twice_;
  uint64_t last_ = 0, last_difference_ = 0;
};

/// Which differences of the first values are the shorter ones.
ChunkCodec shorter_codec(std::span<const int64_t> values) {
  constexpr size_t sample = 512;
  size_t once = 0, twice = 0;
  Differences first(ChunkCodec::delta), second(ChunkCodec::delta_of_delta);
  for (int64_t value : values.first(std::min(values.size(), sample))) {
    once += varint_size(first.next(value));
    twice += varint_size(second.next(value));
  }
  return twice < once ? ChunkCodec::delta_of_delta : ChunkCodec::delta;
}

void append_varints(std::string& plain, std::span<const int64_t> values, ChunkCodec codec) {
  plain.resize(values.size() * most_varint_bytes);
  char* out = plain.data();
  Differences differences(codec);
  for (int64_t value : values) {
    uint64_t code = differences.next(value);
    for (; code >= 0x80; code >>= 7U)
      *out++ = static_cast<char>(code | 0x80U);
    *out++ = static_cast<char>(code);
  }
  plain.resize(static_cast<size_t>(out - plain.data()));
}

void append_shuffled(std::string& plain, std::span<const double> values) {
  const size_t count = values.size();
  plain.resize(count * 8);
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto now = std::bit_cast<uint64_t>(values[i]);
    const uint64_t difference = zigzag(now - last);
    for (size_t byte = 0; byte < 8; ++byte)
      plain[byte * count + i] = static_cast<char>(difference >> (8 * byte));
    last = now;
  }
}

/// The integer that encodes a value at `decimals` decimals; nothing if it would not come back as
/// the same bits.
std::optional<int64_t> as_integer(double value, double power) {
  const double scaled = value * power;
  if (!(std::abs(scaled) < 0x1p53)) return std::nullopt;
  const int64_t integer = std::llround(scaled);
  const double back = static_cast<double>(integer) / power;
  if (std::bit_cast<uint64_t>(back) != std::bit_cast<uint64_t>(value)) return std::nullopt;
  return integer;
}

/// Fewest decimals that all values have, and the values as integers.
std::optional<int> as_integers(std::span<const double> values, std::vector<int64_t>& integers) {
  int decimals = 0;
  for (double value : values)
    while (!as_integer(value, powers_of_ten[static_cast<size_t>(decimals)]))
      if (++decimals == static_cast<int>(powers_of_ten.size())) return std::nullopt;
  integers.clear();
  for (double value : values) {
    // A value with fewer decimals may fail at more: 2^53 ends earlier there.
    const auto integer = as_integer(value, powers_of_ten[static_cast<size_t>(decimals)]);
    if (!integer) return std::nullopt;
    integers.push_back(*integer);
  }
  return decimals;
}

template <class Number>
void fill_header(Chunk& chunk, std::span<const Number> values) {
  chunk.count = static_cast<int64_t>(values.size());
  double minimum = static_cast<double>(values.front()), maximum = minimum, sum = 0;
  for (Number number : values) {
    const auto value = static_cast<double>(number);
    if (std::isnan(value)) return;
    minimum = std::min(minimum, value);
    maximum = std::max(maximum, value);
    sum += value;
  }
  chunk.minimum = minimum;
  chunk.maximum = maximum;
  chunk.sum = sum;
}

/// The bytes that were compressed, if there are at least `least` and at most `most` of them.
std::optional<std::string> decompress(std::string_view data, size_t least, size_t most) {
  const auto size = ZSTD_getFrameContentSize(data.data(), data.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) return std::nullopt;
  if (size < least || size > most) return std::nullopt;
  std::string plain(size, '\0');
  const size_t got = ZSTD_decompress(plain.data(), plain.size(), data.data(), data.size());
  if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
  return plain;
}

bool read_varints(std::string_view plain, int64_t count, ChunkCodec codec,
                  std::vector<int64_t>& values) {
  Differences differences(codec);
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t code = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at == plain.size() || shift > 63) return false;
      const auto byte = static_cast<uint8_t>(plain[at++]);
      code |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) break;
    }
    values.push_back(differences.value_of(code));
  }
  return at == plain.size();
}

void read_shuffled(std::string_view plain, std::vector<double>& values) {
  const size_t count = plain.size() / 8;
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t difference = 0;
    for (size_t byte = 0; byte < 8; ++byte)
      difference |= static_cast<uint64_t>(static_cast<uint8_t>(plain[byte * count + i]))
                    << (8 * byte);
    last += unzigzag(difference);
    values.push_back(std::bit_cast<double>(last));
  }
}

bool has_sound_header(const Chunk& chunk) {
  return chunk.count > 0 && chunk.count <= most_values_per_chunk && chunk.decimals >= 0 &&
         chunk.decimals < static_cast<int>(powers_of_ten.size());
}

}  // namespace

void ChunkEncoder::FreeContext::operator()(void* context) const {
  ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(context));
}

ChunkEncoder::ChunkEncoder() : context_(ZSTD_createCCtx()) {}

void ChunkEncoder::compress(Chunk& chunk) {
  chunk.data.resize(ZSTD_compressBound(plain_.size()));
  const size_t size =
      ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(context_.get()), chunk.data.data(),
                        chunk.data.size(), plain_.data(), plain_.size(), compression_level);
  TPT_ENSURE(ZSTD_isError(size) == 0);
  chunk.data.resize(size);
}

Chunk ChunkEncoder::encode_integers(std::span<const int64_t> values, int decimals) {
  Chunk chunk{.codec = shorter_codec(values), .decimals = decimals};
  append_varints(plain_, values, chunk.codec);
  compress(chunk);
  return chunk;
}

Chunk ChunkEncoder::encode(std::span<const int64_t> values) {
  TPT_EXPECT(!values.empty() && values.size() <= most_values_per_chunk);
  Chunk chunk = encode_integers(values, 0);
  fill_header(chunk, values);
  return chunk;
}

Chunk ChunkEncoder::encode(std::span<const double> values) {
  TPT_EXPECT(!values.empty() && values.size() <= most_values_per_chunk);
  Chunk chunk{.codec = ChunkCodec::shuffled_bits};
  if (const auto decimals = as_integers(values, integers_)) {
    chunk = encode_integers(integers_, *decimals);
  } else {
    append_shuffled(plain_, values);
    compress(chunk);
  }
  fill_header(chunk, values);
  return chunk;
}

bool decode(const Chunk& chunk, std::string_view data, std::vector<int64_t>& values) {
  if (!has_sound_header(chunk)) return false;
  if (chunk.codec != ChunkCodec::delta && chunk.codec != ChunkCodec::delta_of_delta) return false;
  const auto count = static_cast<size_t>(chunk.count);
  const auto plain = decompress(data, count, count * most_varint_bytes);
  return plain && read_varints(*plain, chunk.count, chunk.codec, values);
}

bool decode(const Chunk& chunk, std::string_view data, std::vector<double>& values) {
  if (!has_sound_header(chunk)) return false;
  const auto count = static_cast<size_t>(chunk.count);
  if (chunk.codec == ChunkCodec::shuffled_bits) {
    const auto plain = decompress(data, count * 8, count * 8);
    if (plain) read_shuffled(*plain, values);
    return plain.has_value();
  }
  std::vector<int64_t> integers;
  if (!decode(chunk, data, integers)) return false;
  const double power = powers_of_ten[static_cast<size_t>(chunk.decimals)];
  for (int64_t integer : integers)
    values.push_back(static_cast<double>(integer) / power);
  return true;
}

}  // namespace triplepoint::run
