// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triplepoint {

/// Where a random number lives: drawn by position, not in turn, so that order and threads do not
/// matter.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  ///< one per question, e.g. "leakage of a board"
};

/// 64 mixed bits. Source: splitmix64 of S. Vigna (prng.di.unimi.it), after Steele, Lea, Flood,
/// OOPSLA 2014.
std::uint64_t random_bits(RandomKey key, std::uint64_t index);

/// Uniform in [0, 1): the upper 53 bits.
double random_uniform(RandomKey key, std::uint64_t index);

/// Normal with mean 0 and standard deviation 1, by Box and Muller from two uniforms.
double random_normal(RandomKey key, std::uint64_t index);

}  // namespace triplepoint
