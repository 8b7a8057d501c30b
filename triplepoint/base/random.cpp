// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/random.h"

#include <cmath>
#include <numbers>

namespace triplepoint {
namespace {

constexpr std::uint64_t golden_gamma = 0x9E3779B97F4A7C15;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
  return z ^ (z >> 31U);
}

}  // namespace

std::uint64_t random_bits(RandomKey key, std::uint64_t index) {
  // Mixed between the three, so that neighbours in seed, stream and index share nothing.
  const std::uint64_t seeded = mix(key.seed + golden_gamma);
  const std::uint64_t streamed = mix(seeded ^ (key.stream * golden_gamma + 1));
  return mix(streamed + golden_gamma * (index + 1));
}

double random_uniform(RandomKey key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11U) * 0x1.0p-53;
}

double random_normal(RandomKey key, std::uint64_t index) {
  const double radius =
      std::sqrt(-2 * std::log(1 - random_uniform(key, 2 * index)));  // 1 - u is never 0
  return radius * std::cos(2 * std::numbers::pi * random_uniform(key, 2 * index + 1));
}

}  // namespace triplepoint
