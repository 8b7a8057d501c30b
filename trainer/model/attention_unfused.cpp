// SPDX-License-Identifier: Apache-2.0
// The core of attention with its scores written out: stacks without flash attention.
#include <cmath>

#include "trainer/model/attention_block.h"

namespace triplepoint::trainer {
namespace {

/// One head of one sequence: where it lies, and its square of scores.
struct Square {
  int64_t query, key, value, output, scores, dropout_row;
};

Square square_of(const Attention& shape, int64_t sequence, int64_t head) {
  const int64_t d = shape.head_dim, row = sequence * shape.length;
  const int64_t group = head / (shape.heads / shape.groups);
  const int64_t at = row * shape.width();
  return {.query = at + head * d,
          .key = at + (shape.heads + group) * d,
          .value = at + (shape.heads + shape.groups + group) * d,
          .output = row * shape.heads * d + head * d,
          .scores = (sequence * shape.heads + head) * shape.length * shape.length,
          .dropout_row = shape.dropout.first_row +
                         (sequence * shape.all_heads + shape.first_head + head) * shape.length};
}

template <class Body>
void for_each_square(const Attention& shape, const Body& body) {
  for (int64_t s = 0; s < shape.sequences; ++s)
    for (int64_t h = 0; h < shape.heads; ++h)
      body(square_of(shape, s, h));
}

Dropout dropout_of(const Attention& shape, const Square& square) {
  Dropout dropout = shape.dropout;
  dropout.first_row = square.dropout_row;
  return dropout;
}

int64_t all_scores(const Attention& shape) {
  return shape.sequences * shape.heads * shape.length * shape.length;
}

SpanText product_text(const ModelContext& context, const char* name, const Attention& shape) {
  return op_text(context, name, all_scores(shape),
                 2.0 * static_cast<double>(all_scores(shape) * shape.head_dim));
}

float scale_of(const Attention& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

/// [length, length] = rows x rows^T, both of one head.
Gemm outer(const Attention& shape, const float* a, int64_t a_stride, const float* b, float* c) {
  return {.m = shape.length,
          .n = shape.length,
          .k = shape.head_dim,
          .a = a,
          .a_stride = a_stride,
          .b = b,
          .b_stride = shape.width(),
          .b_transposed = true,
          .c = c,
          .c_stride = shape.length};
}

struct Rows {
  float* data;
  int64_t stride;
};

/// [length, head_dim] (+)= square (transposed or not) x rows.
Gemm inner(const Attention& shape, const float* square, bool transposed, const float* b,
           int64_t b_stride, Rows c) {
  return {.m = shape.length,
          .n = shape.head_dim,
          .k = shape.length,
          .a = square,
          .a_stride = shape.length,
          .a_transposed = transposed,
          .b = b,
          .b_stride = b_stride,
          .c = c.data,
          .c_stride = c.stride};
}

}  // namespace

void AttentionBlock::unfused_core(const Attention& shape, AttentionKept& kept) {
  Math& math = context_.math;
  kept.scores = context_.kept(all_scores(shape));
  float* qkv = kept.qkv.data();
  {
    const ScopedSpan span(product_text(context_, "attention_scores", shape));
    for_each_square(shape, [&](const Square& at) {
      math.gemm(outer(shape, qkv + at.query, shape.width(), qkv + at.key,
                      kept.scores.data() + at.scores));
    });
  }
  {
    const ScopedSpan span(op_text(context_, "softmax", 2 * all_scores(shape)));
    math.causal_softmax(shape.sequences * shape.heads, shape.length, scale_of(shape),
                        kept.scores.data());
  }
  if (shape.dropout.probability > 0) {
    const ScopedSpan span(op_text(context_, "attention_dropout", 2 * all_scores(shape)));
    kept.dropped_scores = context_.kept(all_scores(shape));
    for_each_square(shape, [&](const Square& at) {
      math.dropout(shape.length, shape.length, dropout_of(shape, at),
                   kept.scores.data() + at.scores, kept.dropped_scores.data() + at.scores);
    });
  }
  const float* used = (kept.dropped_scores.empty() ? kept.scores : kept.dropped_scores).data();
  const ScopedSpan span(product_text(context_, "attention_values", shape));
  for_each_square(shape, [&](const Square& at) {
    math.gemm(inner(shape, used + at.scores, false, qkv + at.value, shape.width(),
                    {kept.output.data() + at.output, shape.heads * shape.head_dim}));
  });
}

void AttentionBlock::unfused_core_backward(const Attention& shape, AttentionKept& kept,
                                           const float* output_gradient) {
  Math& math = context_.math;
  const int64_t out_stride = shape.heads * shape.head_dim;
  float* qkv = kept.qkv.data();
  Buffer gradients = context_.workspace(all_scores(shape));
  Buffer result = context_.workspace(context_.tokens() * shape.width());
  math.zero(result.count(), result.data());
  const float* used = (kept.dropped_scores.empty() ? kept.scores : kept.dropped_scores).data();
  const auto add = [&](Gemm g) {
    g.beta = 1;  // queries of a group add up in its keys and values
    math.gemm(g);
  };
  {
    const ScopedSpan span(product_text(context_, "attention_value_dgrad", shape));
    for_each_square(shape, [&](const Square& at) {
      add(inner(shape, used + at.scores, true, output_gradient + at.output, out_stride,
                {result.data() + at.value, shape.width()}));
    });
  }
  {
    const ScopedSpan span(product_text(context_, "attention_scores_dgrad", shape));
    for_each_square(shape, [&](const Square& at) {
      math.gemm(outer(shape, output_gradient + at.output, out_stride, qkv + at.value,
                      gradients.data() + at.scores));
    });
  }
  if (shape.dropout.probability > 0) {
    const ScopedSpan span(op_text(context_, "attention_dropout_backward", 2 * all_scores(shape)));
    for_each_square(shape, [&](const Square& at) {
      float* square = gradients.data() + at.scores;
      math.dropout(shape.length, shape.length, dropout_of(shape, at), square, square);
    });
  }
  {
    const ScopedSpan span(op_text(context_, "softmax_backward", 3 * all_scores(shape)));
    math.softmax_backward(shape.sequences * shape.heads, shape.length, scale_of(shape),
                          kept.scores.data(), gradients.data());
  }
  {
    const ScopedSpan span(product_text(context_, "attention_key_dgrad", shape));
    for_each_square(shape, [&](const Square& at) {
      add(inner(shape, gradients.data() + at.scores, true, qkv + at.query, shape.width(),
                {result.data() + at.key, shape.width()}));
    });
  }
  const ScopedSpan span(product_text(context_, "attention_query_dgrad", shape));
  for_each_square(shape, [&](const Square& at) {
    add(inner(shape, gradients.data() + at.scores, false, qkv + at.key, shape.width(),
              {result.data() + at.query, shape.width()}));
  });
  math.copy(result.count(), result.data(), qkv);
  kept.scores.release();
  kept.dropped_scores.release();
}

}  // namespace triplepoint::trainer
