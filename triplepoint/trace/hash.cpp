// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/hash.h"

#include <cstring>

namespace triplepoint::trace {

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t eight(const char* text) {
  uint64_t all = 0;
  std::memcpy(&all, text, sizeof all);
  return all;
}

}  // namespace

// Folded 64x64 multiplications over 16 bytes a time, as wyhash and others do.
uint64_t hash_of(std::string_view text, uint64_t salt) {
  constexpr uint64_t k0 = 0xa0761d6478bd642f, k1 = 0xe7037ed1a0b428db;
  uint64_t hash = mix(salt ^ k0, text.size() ^ k1);
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= 16; at += 16, left -= 16)
    hash = mix(eight(at) ^ k0 ^ hash, eight(at + 8) ^ k1);
  char tail[16] = {};
  if (left > 0) std::memcpy(tail, at, left);
  return mix(eight(tail) ^ k1 ^ hash, eight(tail + 8) ^ k0);
}

}  // namespace triplepoint::trace
