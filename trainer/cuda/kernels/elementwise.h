// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/cuda/kernels/array.h"

// What is done to each number of a matrix: body(row, column). The formulas are those of
// trainer/math/cpu_vectors.h, with the same functors.
namespace triplepoint::trainer::cuda {

struct Copy {
  Array x, y;
  int64_t x_stride, y_stride;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    y.put(r * y_stride + c, x[r * x_stride + c]);
  }
};

/// C = alpha op(A) op(B) + beta C, a thread per number and without tensor cores: any types, any
/// strides. For products that cuBLASLt has no algorithm for. Rows are those of all matrices.
struct PlainProduct {
  Gemm shape;
  Array a, b, c;
  int64_t a_step, b_step, c_step;  // from one matrix to the next
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t j) const {
    const int64_t matrix = r / shape.m, i = r % shape.m;
    const int64_t a_at = matrix * a_step + (shape.a_transposed ? i : i * shape.a_stride);
    const int64_t b_at = matrix * b_step + (shape.b_transposed ? j * shape.b_stride : j);
    const int64_t a_next = shape.a_transposed ? shape.a_stride : 1;
    const int64_t b_next = shape.b_transposed ? 1 : shape.b_stride;
    float sum = 0;
    for (int64_t p = 0; p < shape.k; ++p)
      sum += a[a_at + p * a_next] * b[b_at + p * b_next];
    const int64_t at = matrix * c_step + i * shape.c_stride + j;
    c.put(at, shape.alpha * sum + (shape.beta != 0 ? shape.beta * c[at] : 0.0F));
  }
};

struct Add {
  Array x, y;
  TPT_HOST_DEVICE void operator()(int64_t, int64_t c) const { y.add(c, x[c]); }
};

struct Scale {
  Array x;
  float factor;
  TPT_HOST_DEVICE void operator()(int64_t, int64_t c) const { x.put(c, x[c] * factor); }
};

struct RoundToBf16 {
  Array x;
  TPT_HOST_DEVICE void operator()(int64_t, int64_t c) const { x.put(c, round_to_bf16(x[c])); }
};

struct AddBias {
  Array bias, x;
  int64_t stride;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const { x.add(r * stride + c, bias[c]); }
};

/// y = x + dropped branch; x may be absent.
struct Residual {
  Array x, branch, y;
  int64_t width;
  Dropout dropout;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    const int64_t at = r * width + c;
    float b = branch[at];
    if (dropout.probability > 0) {
      const uint64_t row = dropout_row(dropout.site, dropout.first_row + r);
      const bool kept =
          is_kept(row, static_cast<uint32_t>(c), dropout_threshold(dropout.probability));
      b = kept ? b * (1.0F / (1.0F - dropout.probability)) : 0.0F;
    }
    y.put(at, x.there() ? x[at] + b : b);
  }
};

struct Activate {
  Nonlinearity kind;
  int64_t width;
  Array z, bias, y;
  TPT_HOST_DEVICE float biased(int64_t at, int64_t c) const {
    return bias.there() ? z[at] + bias[c] : z[at];
  }
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    if (kind == Nonlinearity::swiglu) {
      const float gate = biased(2 * r * width + c, c);
      const float up = biased((2 * r + 1) * width + c, width + c);
      y.put(r * width + c, gate * sigmoid(gate) * up);
      return;
    }
    const float x = biased(r * width + c, c);
    y.put(r * width + c, kind == Nonlinearity::gelu ? gelu(x) : x > 0 ? x * x : 0.0F);
  }
};

/// Writes dz over z.
struct ActivateBackward {
  Nonlinearity kind;
  int64_t width;
  Array z, bias, dy;
  TPT_HOST_DEVICE float biased(int64_t at, int64_t c) const {
    return bias.there() ? z[at] + bias[c] : z[at];
  }
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    const float slope = dy[r * width + c];
    if (kind == Nonlinearity::swiglu) {
      const int64_t at = 2 * r * width + c;
      const float gate = biased(at, c), up = biased(at + width, width + c), s = sigmoid(gate);
      z.put(at, swish_slope(gate, s) * up * slope);
      z.put(at + width, gate * s * slope);
      return;
    }
    const float x = biased(r * width + c, c);
    z.put(r * width + c, (kind == Nonlinearity::gelu ? gelu_slope(x)
                          : x > 0                    ? 2.0F * x
                                                     : 0.0F) *
                             slope);
  }
};

/// Columns are pairs: of head c / half the pair c % half.
struct Rotate {
  Array x;
  const float* table;
  int64_t length, stride;
  int32_t half;
  float sign;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    const auto pair = static_cast<int32_t>(c);
    const int32_t head = pair / half, j = pair % half;
    const float* angle = table + r % length * 2 * half;
    const int64_t at = r * stride + 2 * static_cast<int64_t>(head) * half + j;
    const float a = x[at], b = x[at + half], s = sign * angle[half + j];
    x.put(at, a * angle[j] - b * s);
    x.put(at + half, b * angle[j] + a * s);
  }
};

/// y[r] = x[ids[r] - first]; zeros where that is none of the held rows.
struct GatherRows {
  const int32_t* ids;
  int64_t first, held, width;
  Array x, y;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    const int64_t row = ids[r] - first;
    y.put(r * width + c, row >= 0 && row < held ? x[row * width + c] : 0.0F);
  }
};

/// y[targets[r]] += sum of x[order[i]], i in [starts[r], starts[r + 1]): in one order, no atomics.
struct ScatterRows {
  const int32_t *targets, *starts, *order;
  int64_t width;
  Array x, y;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    float sum = y[targets[r] * width + c];
    for (int32_t i = starts[r]; i < starts[r + 1]; ++i)
      sum += x[order[i] * width + c];
    y.put(targets[r] * width + c, sum);
  }
};

struct CombineRows {
  int64_t k, width;
  const int32_t* place;
  Array weights, x, y;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    float sum = 0;
    for (int64_t j = r * k; j < (r + 1) * k; ++j)
      if (place[j] >= 0) sum += weights[j] * x[place[j] * width + c];
    y.put(r * width + c, sum);
  }
};

struct LossBackward {
  LogitShape shape;
  const int32_t* targets;
  Array sum, e;
  float weight;
  TPT_HOST_DEVICE void operator()(int64_t r, int64_t c) const {
    if (c >= shape.valid) return;
    const int64_t at = r * shape.width + c;
    e.put(at, e[at] * (weight / sum[r]) - (targets[r] - shape.first == c ? weight : 0.0F));
  }
};

struct StepAdamW {
  AdamW step;
  Array gradient, first, second, master, value;
  TPT_HOST_DEVICE void operator()(int64_t, int64_t c) const {
    const float g = gradient[c] * step.gradient_scale;
    const float m = step.beta1 * first[c] + (1.0F - step.beta1) * g;
    const float v = step.beta2 * second[c] + (1.0F - step.beta2) * g * g;
    first.put(c, m);
    second.put(c, v);
    const float change =
        m / step.correction1 / (__builtin_sqrtf(v / step.correction2) + step.epsilon);
    const float old = master[c], now = old - step.rate * (change + step.decay * old);
    master.put(c, now);
    if (value.there()) value.put(c, now);
  }
};

/// The k largest of row c, by falling value, the first of equals; and their softmax.
struct TopK {
  int64_t experts, k;
  Array scores, weights;
  int32_t* chosen;
  TPT_HOST_DEVICE bool is_taken(int64_t row, int64_t expert, int64_t count) const {
    for (int64_t i = 0; i < count; ++i)
      if (chosen[row * k + i] == expert) return true;
    return false;
  }
  TPT_HOST_DEVICE void operator()(int64_t, int64_t row) const {
    const int64_t at = row * experts;
    for (int64_t j = 0; j < k; ++j) {
      int64_t best = -1;
      for (int64_t e = 0; e < experts; ++e)
        if (!is_taken(row, e, j) && (best < 0 || scores[at + e] > scores[at + best])) best = e;
      chosen[row * k + j] = static_cast<int32_t>(best);
    }
    const float maximum = scores[at + chosen[row * k]];
    float sum = 0;
    for (int64_t j = row * k; j < (row + 1) * k; ++j)
      sum += exponential(scores[at + chosen[j]] - maximum);
    if (k == 1)
      for (int64_t e = 0; e < experts; ++e)
        sum += e == chosen[row] ? 0.0F : exponential(scores[at + e] - maximum);
    for (int64_t j = row * k; j < (row + 1) * k; ++j)
      weights.put(j, exponential(scores[at + chosen[j]] - maximum) / sum);
  }
};

struct TopKBackward {
  int64_t experts, k;
  Array scores, weights, slope, gradient;
  const int32_t* chosen;
  TPT_HOST_DEVICE void operator()(int64_t, int64_t row) const {
    const int64_t at = row * experts;
    if (k == 1) {
      const float p0 = weights[row], s0 = scores[at + chosen[row]];
      for (int64_t e = 0; e < experts; ++e)
        gradient.put(
            at + e, p0 * slope[row] *
                        ((e == chosen[row] ? 1.0F : 0.0F) - p0 * exponential(scores[at + e] - s0)));
      return;
    }
    for (int64_t e = 0; e < experts; ++e)
      gradient.put(at + e, 0);
    float along = 0;
    for (int64_t j = row * k; j < (row + 1) * k; ++j)
      along += weights[j] * slope[j];
    for (int64_t j = row * k; j < (row + 1) * k; ++j)
      gradient.put(at + chosen[j], weights[j] * (slope[j] - along));
  }
};

}  // namespace triplepoint::trainer::cuda
