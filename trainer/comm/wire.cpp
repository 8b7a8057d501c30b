// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/wire.h"

// The three loops that a reduction spends its time in: one version per family of processors, chosen
// when the program starts. They add in the same order, so the bits are the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TPT_FOR_EACH_PROCESSOR \
  __attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#else
#define TPT_FOR_EACH_PROCESSOR
#endif

namespace triplepoint::trainer {
namespace {

TPT_FOR_EACH_PROCESSOR void add(const float* a, const float* b, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = a[i] + b[i];
}

TPT_FOR_EACH_PROCESSOR void larger(const float* a, const float* b, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = a[i] < b[i] ? b[i] : a[i];
}

TPT_FOR_EACH_PROCESSOR void add_twice(float* __restrict a, float* __restrict b, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    a[i] = b[i] = a[i] + b[i];
}

TPT_FOR_EACH_PROCESSOR void larger_twice(float* __restrict a, float* __restrict b, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    a[i] = b[i] = a[i] < b[i] ? b[i] : a[i];
}

TPT_FOR_EACH_PROCESSOR void add_rounded(const float* a, const float* b, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = rounded_to_bf16(a[i]) + rounded_to_bf16(b[i]);
}

}  // namespace

TPT_FOR_EACH_PROCESSOR void encode(const float* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = to_bf16(from[i]);
}

void decode(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = from_bf16(from[i]);
}

void round_to_bf16(float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = rounded_to_bf16(numbers[i]);
}

void combine(const float* a, const float* b, float* to, int64_t count, Reduction reduction,
             Wire wire) {
  if (reduction == Reduction::maximum) {
    larger(a, b, to, count);
    if (wire == Wire::bf16) round_to_bf16(to, count);  // rounding keeps the order
    return;
  }
  if (wire == Wire::bf16) return add_rounded(a, b, to, count);
  add(a, b, to, count);
}

void combine_twice(float* a, float* b, int64_t count, Reduction reduction) {
  if (reduction == Reduction::maximum) return larger_twice(a, b, count);
  add_twice(a, b, count);
}

}  // namespace triplepoint::trainer
