// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/math/cpu_vectors.h"

// Words, logits and routed rows on the CPU.
namespace triplepoint::trainer {
namespace {

inline float* row_at(float* x, int64_t row, int64_t width) {
  return x + row * width;
}
inline const float* row_at(const float* x, int64_t row, int64_t width) {
  return x + row * width;
}

/// Column of the target among those held here; -1 where another rank holds it.
inline int64_t held_target(const LogitShape& shape, int32_t target) {
  const int64_t column = target - shape.first;
  return column >= 0 && column < shape.valid ? column : -1;
}

inline void loss_sums_row(const LogitShape& shape, int32_t target, float maximum, float* logits,
                          float* target_logit, float* sum) {
  const int64_t column = held_target(shape, target);
  *target_logit = column >= 0 ? logits[column] - maximum : 0.0F;
  *sum = exponentials(shape.valid, 1.0F, maximum, logits);
  zero_row(shape.width - shape.valid, logits + shape.valid);
}

/// The k largest, by falling value; the first of equals.
inline void choose(int64_t experts, int64_t k, const float* scores, int32_t* chosen) {
  for (int64_t j = 0; j < k; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e) {
      bool taken = false;
      for (int64_t i = 0; i < j; ++i)
        taken |= chosen[i] == e;
      if (!taken && (best < 0 || scores[e] > scores[best])) best = e;
    }
    chosen[j] = static_cast<int32_t>(best);
  }
}

inline void weigh(int64_t experts, int64_t k, const float* scores, const int32_t* chosen,
                  float* weights) {
  const float maximum = scores[chosen[0]];
  float sum = 0;
  for (int64_t j = 0; j < k; ++j) {
    weights[j] = exponential(scores[chosen[j]] - maximum);
    sum += weights[j];
  }
  if (k == 1)
    for (int64_t e = 0; e < experts; ++e)
      sum += e == chosen[0] ? 0.0F : exponential(scores[e] - maximum);
  for (int64_t j = 0; j < k; ++j)
    weights[j] /= sum;
}

inline void weigh_backward(int64_t experts, int64_t k, const float* scores, const int32_t* chosen,
                           const float* weights, const float* slope, float* gradient) {
  zero_row(experts, gradient);
  if (k == 1) {  // dp0/ds_e = p0 (1[e = 0] - p_e), p_e = p0 e^(s_e - s_0)
    for (int64_t e = 0; e < experts; ++e) {
      const float p = weights[0] * exponential(scores[e] - scores[chosen[0]]);
      gradient[e] = weights[0] * slope[0] * ((e == chosen[0] ? 1.0F : 0.0F) - p);
    }
    return;
  }
  const float along = dot(k, weights, slope);
  for (int64_t j = 0; j < k; ++j)
    gradient[chosen[j]] = weights[j] * (slope[j] - along);
}

}  // namespace
}  // namespace triplepoint::trainer
