// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace triplepoint::trainer {

enum class Reduction { sum, maximum };

/// Numbers are floats in memory; on the wire they may be rounded to bf16, two bytes each. Sums of
/// them are rounded, too.
enum class Wire { fp32, bf16 };

constexpr int64_t bytes_of(Wire wire) {
  return wire == Wire::bf16 ? 2 : 4;
}

/// How a number travels.
enum class Number : uint8_t { fp32, bf16, int64 };

constexpr int64_t bytes_of(Number number) {
  return number == Number::fp32 ? 4 : number == Number::bf16 ? 2 : 8;
}

/// The nearest bf16, ties to even: the upper half of the float. Not-a-number stays one.
inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16U | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}
inline float from_bf16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16U);
}

void encode(const float* from, uint16_t* to, int64_t count);
void decode(const uint16_t* from, float* to, int64_t count);
void round_to_bf16(float* numbers, int64_t count);

/// to[i] = to[i] + from[i], or the larger one; sums of bf16 are rounded.
void combine(Number, const void* from, void* to, int64_t count, Reduction);

}  // namespace triplepoint::trainer
