// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rows of vectors on the CPU. Compiled once per instruction set; nothing of the standard library's
// templates may stand here, since the linker would keep one copy of them for all.

#include "trainer/math/math.h"

namespace triplepoint::trainer {
namespace {

// Bodies of the element-wise operations. No library calls and no branches, so that they vectorize.

inline uint32_t bits_of(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
inline float float_of(uint32_t x) {
  return __builtin_bit_cast(float, x);
}

/// e^x to 2 units in the last place: x = n ln 2 + r, polynomial in r (Cephes' expf, S. Moshier).
inline float exponential(float x) {
  x = x > 88.0F ? 88.0F : x;
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504F + 12582912.0F;  // rounds to a whole number
  const float n = shifted - 12582912.0F;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const uint32_t power = (bits_of(shifted) - bits_of(12582912.0F) + 127U) << 23U;
  return p * float_of(power);
}

inline float sigmoid(float x) {
  return 1.0F / (1.0F + exponential(-x));
}

/// GELU in its tanh form: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline float gelu(float x) {
  return x * sigmoid(1.5957691216F * (x + 0.044715F * x * x * x));
}
inline float gelu_slope(float x) {
  const float s = sigmoid(1.5957691216F * (x + 0.044715F * x * x * x));
  return s + x * s * (1.0F - s) * 1.5957691216F * (1.0F + 0.134145F * x * x);
}

/// Slope of x s, s = sigmoid(x).
inline float swish_slope(float x, float s) {
  return s * (1.0F + x * (1.0F - s));
}

struct RowMoments {
  float mean, deviation;  // reciprocal
};

inline RowMoments moments_of(const Norm& norm, const float* x) {
  const auto width = static_cast<float>(norm.width);
  float mean = 0, square = 0;
  if (norm.centered) {
#pragma omp simd reduction(+ : mean)
    for (int64_t j = 0; j < norm.width; ++j)
      mean += x[j];
    mean /= width;
  }
#pragma omp simd reduction(+ : square)
  for (int64_t j = 0; j < norm.width; ++j)
    square += (x[j] - mean) * (x[j] - mean);
  return {mean, 1.0F / __builtin_sqrtf(square / width + norm.epsilon)};
}

inline void norm_row(const Norm& norm, RowMoments row, const float* x, const float* gain,
                     const float* bias, float* __restrict y) {
  if (bias == nullptr) {
    for (int64_t j = 0; j < norm.width; ++j)
      y[j] = (x[j] - row.mean) * row.deviation * gain[j];
    return;
  }
  for (int64_t j = 0; j < norm.width; ++j)
    y[j] = (x[j] - row.mean) * row.deviation * gain[j] + bias[j];
}

/// dx = deviation (g dy - mean(g dy) - x^ mean(g dy x^)), x^ the normalized row.
inline void norm_row_backward(const Norm& norm, RowMoments row, const float* x, const float* gain,
                              const float* dy, float* __restrict dx) {
  float along = 0, sum = 0;
#pragma omp simd reduction(+ : along, sum)
  for (int64_t j = 0; j < norm.width; ++j) {
    const float slope = dy[j] * gain[j];
    sum += slope;
    along += slope * (x[j] - row.mean) * row.deviation;
  }
  const auto width = static_cast<float>(norm.width);
  const float mean = norm.centered ? sum / width : 0.0F;
  along /= width;
  for (int64_t j = 0; j < norm.width; ++j)
    dx[j] += row.deviation * (dy[j] * gain[j] - mean - (x[j] - row.mean) * row.deviation * along);
}

inline void add_gain_gradient(const Norm& norm, RowMoments row, const float* x, const float* dy,
                              float* __restrict gain_gradient) {
  for (int64_t j = 0; j < norm.width; ++j)
    gain_gradient[j] += dy[j] * (x[j] - row.mean) * row.deviation;
}

inline void add_row(int64_t n, const float* x, float* __restrict y) {
  for (int64_t j = 0; j < n; ++j)
    y[j] += x[j];
}

inline void copy_row(int64_t n, const float* x, float* y) {
  __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
}

inline void zero_row(int64_t n, float* x) {
  __builtin_memset(x, 0, static_cast<size_t>(n) * sizeof(float));
}

/// One head: halves turned against each other.
inline void turn(int64_t half, const float* cosine, const float* sine, float sign,
                 float* __restrict x) {
  for (int64_t j = 0; j < half; ++j) {
    const float a = x[j], b = x[half + j], s = sign * sine[j];
    x[j] = a * cosine[j] - b * s;
    x[half + j] = b * cosine[j] + a * s;
  }
}

/// One row of an activation. `gate` is what is bent; `up` is its factor under SwiGLU.
inline void activate_row(Nonlinearity kind, int64_t width, const float* gate, const float* up,
                         float* __restrict y) {
  switch (kind) {
    case Nonlinearity::gelu:
      for (int64_t j = 0; j < width; ++j)
        y[j] = gelu(gate[j]);
      return;
    case Nonlinearity::swiglu:
      for (int64_t j = 0; j < width; ++j)
        y[j] = gate[j] * sigmoid(gate[j]) * up[j];
      return;
    case Nonlinearity::squared_relu:
      for (int64_t j = 0; j < width; ++j)
        y[j] = gate[j] > 0 ? gate[j] * gate[j] : 0.0F;
      return;
  }
}

inline void activate_row_backward(Nonlinearity kind, int64_t width, float* __restrict gate,
                                  float* __restrict up, const float* dy) {
  switch (kind) {
    case Nonlinearity::gelu:
      for (int64_t j = 0; j < width; ++j)
        gate[j] = gelu_slope(gate[j]) * dy[j];
      return;
    case Nonlinearity::swiglu:
      for (int64_t j = 0; j < width; ++j) {
        const float g = gate[j], s = sigmoid(g);
        gate[j] = swish_slope(g, s) * up[j] * dy[j];
        up[j] = g * s * dy[j];
      }
      return;
    case Nonlinearity::squared_relu:
      for (int64_t j = 0; j < width; ++j)
        gate[j] = gate[j] > 0 ? 2.0F * gate[j] * dy[j] : 0.0F;
      return;
  }
}

inline float dot(int64_t n, const float* x, const float* y) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j)
    sum += x[j] * y[j];
  return sum;
}

inline float largest(int64_t n, const float* x) {
  float maximum = -3.4e38F;
#pragma omp simd reduction(max : maximum)
  for (int64_t j = 0; j < n; ++j)
    maximum = x[j] > maximum ? x[j] : maximum;
  return maximum;
}

/// x = e^(factor x - shift); returns the sum.
inline float exponentials(int64_t n, float factor, float shift, float* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    const float e = exponential(x[j] * factor - shift);
    x[j] = e;
    sum += e;
  }
  return sum;
}

inline void scale_row(int64_t n, float factor, float* __restrict x) {
  for (int64_t j = 0; j < n; ++j)
    x[j] *= factor;
}

inline void adamw_row(const AdamW& step, int64_t n, const float* gradient, float* __restrict first,
                      float* __restrict second, float* __restrict master) {
  const float unbias1 = 1.0F / step.correction1, unbias2 = 1.0F / step.correction2;
  for (int64_t j = 0; j < n; ++j) {
    const float g = gradient[j] * step.gradient_scale;
    first[j] = step.beta1 * first[j] + (1.0F - step.beta1) * g;
    second[j] = step.beta2 * second[j] + (1.0F - step.beta2) * g * g;
    const float change = first[j] * unbias1 / (__builtin_sqrtf(second[j] * unbias2) + step.epsilon);
    master[j] -= step.rate * (change + step.decay * master[j]);
  }
}

}  // namespace

// Words, logits and routed rows on the CPU.

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

}  // namespace

}  // namespace triplepoint::trainer
