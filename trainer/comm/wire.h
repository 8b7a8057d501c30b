// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triplepoint::trainer {

enum class Reduction { sum, maximum };

/// How a number travels.
enum class Number : uint8_t { fp32, int64 };

constexpr int64_t bytes_of(Number number) {
  return number == Number::fp32 ? 4 : 8;
}

/// to[i] = to[i] + from[i], or the larger one.
void combine(Number, const void* from, void* to, int64_t count, Reduction);

}  // namespace triplepoint::trainer
