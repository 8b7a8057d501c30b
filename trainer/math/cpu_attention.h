// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include "trainer/math/cpu_vectors.h"

// Attention on the CPU: a block of queries against all keys before it, so that scores of a block
// exist at a time (length x block numbers), never the square.

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

/// Rows of queries taken at once: small blocks waste less beyond the diagonal, large ones multiply
/// faster.
inline int64_t query_block(const Attention& shape) {
  return shape.length > 512 ? 128 : 64;
}

/// Where one head of one sequence lies.
struct Head {
  int64_t sequence, head;
  int64_t group(const Attention& shape) const { return head / (shape.heads / shape.groups); }
  int64_t query_offset(const Attention& shape) const {
    return sequence * shape.length * shape.width() + head * shape.head_dim;
  }
  int64_t key_offset(const Attention& shape) const {
    return sequence * shape.length * shape.width() + (shape.heads + group(shape)) * shape.head_dim;
  }
  int64_t value_offset(const Attention& shape) const {
    return key_offset(shape) + shape.groups * shape.head_dim;
  }
  int64_t output_offset(const Attention& shape) const {
    return sequence * shape.length * shape.heads * shape.head_dim + head * shape.head_dim;
  }
  int64_t sum_offset(const Attention& shape) const {
    return (sequence * shape.heads + head) * shape.length;
  }
};

struct QueryBlock {
  int64_t first, rows, keys;
  int64_t before;  // keys before the first query; a query sees these and all up to its own
  int64_t seen(int64_t i) const { return before + i + 1 < keys ? before + i + 1 : keys; }
};

/// Where a head's keys and values lie, and how far their rows are apart.
struct KeySide {
  const float *key, *value;
  int64_t stride;
};

inline QueryBlock block_at(const Attention& shape, int64_t first) {
  const int64_t step = query_block(shape);
  const int64_t rows = shape.length - first < step ? shape.length - first : step;
  return {first, rows, first + rows, first};
}

/// scores[rows, keys] = queries keys^T, not scaled.
inline void score_block(const Attention& shape, const QueryBlock& block, const float* query,
                        const KeySide& keys, float* scores) {
  multiply({.m = block.rows,
            .n = block.keys,
            .k = shape.head_dim,
            .a = query + block.first * shape.width(),
            .a_stride = shape.width(),
            .b = keys.key,
            .b_stride = keys.stride,
            .b_transposed = true,
            .c = scores,
            .c_stride = block.keys});
}

inline void softmax_block(const Attention& shape, const QueryBlock& block, float* scores,
                          float* sums) {
  const float scale = attention_scale(shape);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = scores + i * block.keys;
    const int64_t seen = block.seen(i);
    const float shift = scale * largest(seen, row);
    const float sum = exponentials(seen, scale, shift, row);
    sums[block.first + i] = shift + __builtin_logf(sum);
    scale_row(seen, 1.0F / sum, row);
    zero_row(block.keys - seen, row + seen);
  }
}

inline KeySide own_keys(const Attention& shape, const Head& head, const float* qkv) {
  return {qkv + head.key_offset(shape), qkv + head.value_offset(shape), shape.width()};
}

inline void attention_head(const Attention& shape, const Head& head, const float* qkv, float* out,
                           float* sums, float* scores) {
  const float* query = qkv + head.query_offset(shape);
  const KeySide keys = own_keys(shape, head, qkv);
  const int64_t out_stride = shape.heads * shape.head_dim;
  for (int64_t first = 0; first < shape.length; first += query_block(shape)) {
    const QueryBlock block = block_at(shape, first);
    score_block(shape, block, query, keys, scores);
    softmax_block(shape, block, scores, sums + head.sum_offset(shape));
    multiply({.m = block.rows,
              .n = shape.head_dim,
              .k = block.keys,
              .a = scores,
              .a_stride = block.keys,
              .b = keys.value,
              .b_stride = keys.stride,
              .c = out + head.output_offset(shape) + first * out_stride,
              .c_stride = out_stride});
  }
}

/// What the backward pass of one head works with.
struct HeadGradients {
  float *scores, *score_gradients;  // [block, length] each
  float *key_gradient, *value_gradient;
  int64_t key_stride;     // both are added to
  float* query_gradient;  // of query 0; written
  int64_t query_stride;
};

/// Gradients of the probabilities -> of the scores.
inline void softmax_block_backward(const Attention& shape, const QueryBlock& block,
                                   const float* along, const HeadGradients& to) {
  const float scale = attention_scale(shape);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float* __restrict p = to.scores + i * block.keys;
    float* __restrict g = to.score_gradients + i * block.keys;
    const int64_t seen = block.seen(i);
    for (int64_t j = 0; j < seen; ++j)
      g[j] = p[j] * (g[j] - along[i]) * scale;
    zero_row(block.keys - seen, g + seen);
  }
}

inline void probabilities_again(const Attention& shape, const QueryBlock& block, const float* sums,
                                float* scores) {
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = scores + i * block.keys;
    const int64_t seen = block.seen(i);
    exponentials(seen, attention_scale(shape), sums[block.first + i], row);
    zero_row(block.keys - seen, row + seen);
  }
}

/// dV += probabilities^T dO.
inline void add_value_gradient(const Attention& shape, const QueryBlock& block,
                               const float* out_gradient, const HeadGradients& to) {
  multiply({.m = block.keys,
            .n = shape.head_dim,
            .k = block.rows,
            .a = to.scores,
            .a_stride = block.keys,
            .a_transposed = true,
            .b = out_gradient,
            .b_stride = shape.heads * shape.head_dim,
            .c = to.value_gradient,
            .c_stride = to.key_stride,
            .beta = 1});
}

inline void add_query_and_key_gradients(const Attention& shape, const QueryBlock& block,
                                        const float* query, const KeySide& keys,
                                        const HeadGradients& to) {
  multiply({.m = block.keys,
            .n = shape.head_dim,
            .k = block.rows,
            .a = to.score_gradients,
            .a_stride = block.keys,
            .a_transposed = true,
            .b = query + block.first * shape.width(),
            .b_stride = shape.width(),
            .c = to.key_gradient,
            .c_stride = to.key_stride,
            .beta = 1});
  multiply({.m = block.rows,
            .n = shape.head_dim,
            .k = block.keys,
            .a = to.score_gradients,
            .a_stride = block.keys,
            .b = keys.key,
            .b_stride = keys.stride,
            .c = to.query_gradient + block.first * to.query_stride,
            .c_stride = to.query_stride});
}

struct OutputSide {
  const float *out, *out_gradient, *sums;
};

inline void attention_block_backward(const Attention& shape, const Head& head,
                                     const QueryBlock& block, const float* query,
                                     const KeySide& keys, const OutputSide& side,
                                     const HeadGradients& to) {
  const int64_t out_stride = shape.heads * shape.head_dim;
  const int64_t out_at = head.output_offset(shape) + block.first * out_stride;
  float along[128];
  for (int64_t i = 0; i < block.rows; ++i)
    along[i] = dot(shape.head_dim, side.out + out_at + i * out_stride,
                   side.out_gradient + out_at + i * out_stride);
  score_block(shape, block, query, keys, to.scores);
  probabilities_again(shape, block, side.sums + head.sum_offset(shape), to.scores);
  add_value_gradient(shape, block, side.out_gradient + out_at, to);
  multiply({.m = block.rows,
            .n = block.keys,
            .k = shape.head_dim,
            .a = side.out_gradient + out_at,
            .a_stride = out_stride,
            .b = keys.value,
            .b_stride = keys.stride,
            .b_transposed = true,
            .c = to.score_gradients,
            .c_stride = block.keys});
  softmax_block_backward(shape, block, along, to);
  add_query_and_key_gradients(shape, block, query, keys, to);
}

/// Writes the queries' gradients over the queries, which a block no longer needs behind it.
inline void attention_head_backward(const Attention& shape, const Head& head, float* qkv,
                                    const OutputSide& side, HeadGradients to) {
  float* query = qkv + head.query_offset(shape);
  to.query_gradient = query;
  for (int64_t first = 0; first < shape.length; first += query_block(shape))
    attention_block_backward(shape, head, block_at(shape, first), query, own_keys(shape, head, qkv),
                             side, to);
}

inline int64_t attention_scratch(const Attention& shape) {
  return 2 * (query_block(shape) + shape.head_dim) * shape.length;
}

inline void attention_group_backward(const Attention& shape, const Head& first_head, float* qkv,
                                     const OutputSide& side, float* scratch) {
  const int64_t square = query_block(shape) * shape.length, part = shape.length * shape.head_dim;
  const HeadGradients to{
      scratch,        scratch + square, scratch + 2 * square, scratch + 2 * square + part,
      shape.head_dim, nullptr,          shape.width()};
  zero_row(2 * part, to.key_gradient);
  for (int64_t i = 0; i < shape.heads / shape.groups; ++i)
    attention_head_backward(shape, {first_head.sequence, first_head.head + i}, qkv, side, to);
  for (int64_t i = 0; i < shape.length; ++i) {
    copy_row(shape.head_dim, to.key_gradient + i * shape.head_dim,
             qkv + first_head.key_offset(shape) + i * shape.width());
    copy_row(shape.head_dim, to.value_gradient + i * shape.head_dim,
             qkv + first_head.value_offset(shape) + i * shape.width());
  }
}

}  // namespace

}  // namespace triplepoint::trainer
