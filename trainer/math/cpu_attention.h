// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include "trainer/math/cpu_vectors.h"

// Attention on the CPU, head by head: scores exist of one head of one sequence at a time.

namespace triplepoint::trainer {

namespace {

inline void multiply(const Gemm& g) {
  const auto whole = [](int64_t i) { return static_cast<blasint>(i); };
  cblas_sgemm(CblasRowMajor, g.a_transposed ? CblasTrans : CblasNoTrans,
              g.b_transposed ? CblasTrans : CblasNoTrans, whole(g.m), whole(g.n), whole(g.k),
              g.alpha, g.a, whole(g.a_stride), g.b, whole(g.b_stride), g.beta, g.c,
              whole(g.c_stride));
}

inline float attention_scale(const Attention& shape) {
  return 1.0F / __builtin_sqrtf(static_cast<float>(shape.head_dim));
}

/// Where one head of one sequence lies: in qkv, in the output, among the sums.
struct Head {
  int64_t query, key, value, output, sums;
};

inline Head head_at(const Attention& shape, int64_t sequence, int64_t head) {
  const int64_t first = sequence * shape.length * shape.width(), d = shape.head_dim;
  const int64_t group = head / (shape.heads / shape.groups);
  const int64_t key = first + (shape.heads + group) * d;
  return {.query = first + head * d,
          .key = key,
          .value = key + shape.groups * d,
          .output = (sequence * shape.length * shape.heads + head) * d,
          .sums = (sequence * shape.heads + head) * shape.length};
}

/// scores[query, key], not scaled.
inline void multiply_keys(const Attention& shape, const Head& head, const float* qkv,
                          float* scores) {
  multiply({.m = shape.length,
            .n = shape.length,
            .k = shape.head_dim,
            .a = qkv + head.query,
            .a_stride = shape.width(),
            .b = qkv + head.key,
            .b_stride = shape.width(),
            .b_transposed = true,
            .c = scores,
            .c_stride = shape.length});
}

inline void attention_head(const Attention& shape, const Head& head, const float* qkv, float* out,
                           float* sums, float* scores) {
  const float scale = attention_scale(shape);
  const int64_t length = shape.length;
  multiply_keys(shape, head, qkv, scores);
  for (int64_t i = 0; i < length; ++i) {
    float* row = scores + i * length;
    const int64_t seen = i + 1;
    const float shift = scale * largest(seen, row);
    const float sum = exponentials(seen, scale, shift, row);
    sums[head.sums + i] = shift + __builtin_logf(sum);
    scale_row(seen, 1.0F / sum, row);
    zero_row(length - seen, row + seen);
  }
  multiply({.m = length,
            .n = shape.head_dim,
            .k = length,
            .a = scores,
            .a_stride = length,
            .b = qkv + head.value,
            .b_stride = shape.width(),
            .c = out + head.output,
            .c_stride = shape.heads * shape.head_dim});
}

struct OutputSide {
  const float *out, *out_gradient, *sums;
};

/// What the heads of a group work with; keys' and values' gradients are added to.
struct GroupScratch {
  float *scores, *score_gradients;       // [query, key]
  float *key_gradient, *value_gradient;  // [key, head_dim]
};

inline int64_t attention_scratch(const Attention& shape) {
  return 2 * (shape.length + shape.head_dim) * shape.length;
}

/// Probabilities anew, and their gradients -> those of the scores.
inline void softmax_backward(const Attention& shape, const Head& head, const OutputSide& side,
                             const GroupScratch& space) {
  const float scale = attention_scale(shape);
  const int64_t length = shape.length, stride = shape.heads * shape.head_dim;
  for (int64_t i = 0; i < length; ++i) {
    const float* __restrict p = space.scores + i * length;
    float* __restrict g = space.score_gradients + i * length;
    const int64_t seen = i + 1, at = head.output + i * stride;
    const float along = dot(shape.head_dim, side.out + at, side.out_gradient + at);
    for (int64_t j = 0; j < seen; ++j)
      g[j] = p[j] * (g[j] - along) * scale;
    zero_row(length - seen, g + seen);
  }
}

/// Adds weights[query, key]^T rows[query, head_dim] to a gradient of the keys or values.
inline void add_transposed(const Attention& shape, const float* weights, const float* rows,
                           int64_t stride, float* gradient) {
  multiply({.m = shape.length,
            .n = shape.head_dim,
            .k = shape.length,
            .a = weights,
            .a_stride = shape.length,
            .a_transposed = true,
            .b = rows,
            .b_stride = stride,
            .c = gradient,
            .c_stride = shape.head_dim,
            .beta = 1});
}

/// Writes the queries' gradients over the queries, which nothing needs behind it.
inline void attention_head_backward(const Attention& shape, const Head& head, float* qkv,
                                    const OutputSide& side, const GroupScratch& space) {
  const int64_t length = shape.length, stride = shape.heads * shape.head_dim;
  const float* out_gradient = side.out_gradient + head.output;
  multiply_keys(shape, head, qkv, space.scores);
  for (int64_t i = 0; i < length; ++i) {
    float* row = space.scores + i * length;
    exponentials(i + 1, attention_scale(shape), side.sums[head.sums + i], row);
    zero_row(length - i - 1, row + i + 1);
  }
  add_transposed(shape, space.scores, out_gradient, stride, space.value_gradient);
  multiply({.m = length,
            .n = length,
            .k = shape.head_dim,
            .a = out_gradient,
            .a_stride = stride,
            .b = qkv + head.value,
            .b_stride = shape.width(),
            .b_transposed = true,
            .c = space.score_gradients,
            .c_stride = length});
  softmax_backward(shape, head, side, space);
  add_transposed(shape, space.score_gradients, qkv + head.query, shape.width(), space.key_gradient);
  multiply({.m = length,
            .n = shape.head_dim,
            .k = length,
            .a = space.score_gradients,
            .a_stride = length,
            .b = qkv + head.key,
            .b_stride = shape.width(),
            .c = qkv + head.query,
            .c_stride = shape.width()});
}

inline void attention_group_backward(const Attention& shape, int64_t sequence, int64_t first,
                                     float* qkv, const OutputSide& side, float* scratch) {
  const int64_t square = shape.length * shape.length, part = shape.length * shape.head_dim;
  const GroupScratch space{scratch, scratch + square, scratch + 2 * square,
                           scratch + 2 * square + part};
  const Head one = head_at(shape, sequence, first);
  zero_row(2 * part, space.key_gradient);
  for (int64_t head = first; head < first + shape.heads / shape.groups; ++head)
    attention_head_backward(shape, head_at(shape, sequence, head), qkv, side, space);
  for (int64_t i = 0; i < shape.length; ++i) {
    copy_row(shape.head_dim, space.key_gradient + i * shape.head_dim,
             qkv + one.key + i * shape.width());
    copy_row(shape.head_dim, space.value_gradient + i * shape.head_dim,
             qkv + one.value + i * shape.width());
  }
}

}  // namespace

}  // namespace triplepoint::trainer
