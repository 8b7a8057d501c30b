// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Bodies of the element-wise operations. No library calls and no branches, so that they vectorize.

// Compiled once per instruction set: internal linkage, so that the linker never mixes them up.
namespace triplepoint::trainer {
namespace {

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

}  // namespace
}  // namespace triplepoint::trainer
