// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::run {

/// How the numbers of a chunk became bytes. Part of the file format: a number never changes its
/// meaning.
enum class ChunkCodec : uint8_t {
  delta = 1,           // differences, zigzag, variable-length integers of 7 bits a byte, zstd
  delta_of_delta = 2,  // differences of differences, the rest as above
  shuffled_bits =
      3  // differences of the 64 bits of a double, all first bytes, all second bytes, ..., zstd
};

/// A stretch of one column. The header answers n, minimum, maximum and sum without decoding.
struct Chunk {
  int64_t count = 0;
  std::optional<double> minimum, maximum, sum;  // absent if a value is not a number
  ChunkCodec codec = ChunkCodec::delta;
  int decimals = 0;  // doubles stored as integers: value = integer / 10^decimals
  std::string data;
};

inline constexpr int64_t most_values_per_chunk = 65536;

/// Doubles that are decimals of up to nine digits after the point (sensor readings are) are stored
/// as integers, all others by their bits; both come back as the same bits.
class ChunkEncoder {
 public:
  ChunkEncoder();
  Chunk encode(std::span<const int64_t> values);
  Chunk encode(std::span<const double> values);

 private:
  Chunk encode_integers(std::span<const int64_t> values, int decimals);
  void compress(Chunk& chunk);

  struct FreeContext {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, FreeContext> context_;
  std::string plain_;
  std::vector<int64_t> integers_;
};

/// Appends the chunk's values. False if the bytes are not what an encoder wrote; then `values` is
/// worthless. Reads no byte outside of the chunk, allocates no more than its count asks for.
bool decode(const Chunk& chunk, std::string_view data, std::vector<int64_t>& values);
bool decode(const Chunk& chunk, std::string_view data, std::vector<double>& values);

}  // namespace triplepoint::run
