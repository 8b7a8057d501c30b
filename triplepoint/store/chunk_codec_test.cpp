// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/chunk_codec.h"

#include <cstring>
#include <limits>

#include <doctest/doctest.h>

namespace triplepoint::run {
namespace {

template <class Number>
void check_codec(const std::vector<Number>& values) {
  ChunkEncoder encoder;
  const Chunk chunk = encoder.encode(std::span<const Number>(values));
  std::vector<Number> back;
  REQUIRE(decode(chunk, chunk.data, back));
  REQUIRE(back.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(std::memcmp(&back[i], &values[i], sizeof(Number)) == 0);
  for (size_t size = 0; size < chunk.data.size(); ++size) {
    std::vector<Number> nothing;
    CHECK(!decode(chunk, std::string_view(chunk.data).substr(0, size), nothing));
  }
}

TEST_CASE("every number comes back as the same bits") {
  constexpr auto most = std::numeric_limits<int64_t>::max();
  constexpr auto least = std::numeric_limits<int64_t>::min();
  check_codec<int64_t>({0, most, least, -1, 1, most, most, least});
  check_codec<int64_t>({7});
  check_codec<double>({0.0, -0.0, 1e300, -1e-300, std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN(), 5e-324});
  check_codec<double>({0.1, 0.25, 612.345, -3.0, 1e9});
  check_codec<double>({0.1, 9007199254740993.0});
  check_codec<double>({1.0 / 3, 2.0 / 3, 1});
}

TEST_CASE("a chunk's header answers without decoding") {
  ChunkEncoder encoder;
  const std::vector<double> values = {3.5, -1, 10};
  const Chunk chunk = encoder.encode(std::span<const double>(values));
  CHECK(chunk.count == 3);
  CHECK(chunk.minimum == -1.0);
  CHECK(chunk.maximum == 10.0);
  CHECK(chunk.sum == 12.5);
  CHECK(chunk.codec != ChunkCodec::shuffled_bits);
  CHECK(chunk.decimals == 1);
}

}  // namespace
}  // namespace triplepoint::run
