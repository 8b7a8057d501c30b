// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "trainer/comm/communicator.h"

namespace triplepoint::trainer {

/// The nearest bf16, ties to even: the upper half of the float. Not-a-number stays one.
inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16U | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}
inline float from_bf16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16U);
}
inline float rounded_to_bf16(float value) {
  return from_bf16(to_bf16(value));
}

void encode(const float* from, uint16_t* to, int64_t count);
void decode(const uint16_t* from, float* to, int64_t count);
void round_to_bf16(float* numbers, int64_t count);

/// to[i] = a[i] + b[i], or the larger one. Under Wire::bf16 both are rounded before, so that two
/// ranks which add each other's numbers get the same.
void combine(const float* a, const float* b, float* to, int64_t count, Reduction, Wire);

/// Both become a[i] + b[i], or the larger one.
void combine_twice(float* a, float* b, int64_t count, Reduction);

constexpr int64_t bytes_of(Wire wire) {
  return wire == Wire::bf16 ? 2 : 4;
}

}  // namespace triplepoint::trainer
