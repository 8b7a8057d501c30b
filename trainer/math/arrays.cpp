// SPDX-License-Identifier: Apache-2.0
// What every Math has by itself. Without a BLAS: a device's plug-in contains it too.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "trainer/math/math.h"

namespace triplepoint::trainer {

Arrays::~Arrays() = default;

float* Arrays::allocate(int64_t n, Storage) {
  const size_t bytes = (static_cast<size_t>(n) * sizeof(float) + 63) / 64 * 64;
  void* array = std::aligned_alloc(64, bytes);
  if (array == nullptr) throw std::bad_alloc();
  return static_cast<float*>(array);
}

void Arrays::release(float* array) {
  std::free(array);
}

void Arrays::zero(int64_t n, float* x) {
  std::fill_n(x, n, 0.0F);
}

void Math::put(int64_t n, const float* host, float* x) {
  std::copy_n(host, n, x);
}

void Math::fetch(int64_t n, const float* x, float* host) {
  std::copy_n(x, n, host);
}

// A job that needs these is refused before a device that lacks them is opened.
void Math::attention_part(const Attention&, const AttentionPair&, const float*, const float*,
                          float*, float*) {
  std::abort();
}

void Math::attention_part_backward(const Attention&, const AttentionPair&, const float*,
                                   const float*, const AttentionGradients&) {
  std::abort();
}

void Math::add_losses(int64_t rows, const float* sum, const float* target) {
  for (int64_t i = 0; i < rows; ++i)
    losses_ += std::log(static_cast<double>(sum[i])) - static_cast<double>(target[i]);
}

double Math::take_losses() {
  return std::exchange(losses_, 0.0);
}

}  // namespace triplepoint::trainer
