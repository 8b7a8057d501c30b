// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/transport.h"

// The loops that a reduction spends its time in: one version per family of processors, chosen when
// the program starts. They add in the same order, so the bits are the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TPT_FOR_EACH_PROCESSOR \
  __attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#else
#define TPT_FOR_EACH_PROCESSOR
#endif

namespace triplepoint::trainer {
namespace {

TPT_FOR_EACH_PROCESSOR void add(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
}

TPT_FOR_EACH_PROCESSOR void larger(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = to[i] < from[i] ? from[i] : to[i];
}

}  // namespace

void combine(const float* from, float* to, int64_t count, Reduction reduction) {
  if (reduction == Reduction::maximum)
    larger(from, to, count);
  else
    add(from, to, count);
}

}  // namespace triplepoint::trainer
