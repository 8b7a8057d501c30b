// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace triplepoint::trainer
