// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/math/cpu_attention.h"

// Attention where a context group's ranks hold pieces of each sequence: a piece of the queries
// against a piece of the keys at a time, merged by the logarithms of the sums.
//
//   sum = log(e^old + e^new),  out = e^(old - sum) out + e^(scores - sum) values
namespace triplepoint::trainer {
namespace {

/// A piece of the queries against a piece of the keys, both of `size` tokens.
struct Tile {
  int64_t query_row, key_row, size;  // rows of the tokens held
  int64_t query_position, key_position;
};

template <class Body>
void for_each_tile(const AttentionPair& pair, const Body& body) {
  const int64_t size = pair.queries.piece_length();
  for (int64_t q = 0; q < pair.queries.pieces(); ++q)
    for (int64_t k = 0; k < pair.keys.pieces(); ++k) {
      const Tile tile{q * size, k * size, size, pair.queries.piece_position(q),
                      pair.keys.piece_position(k)};
      if (tile.key_position <= tile.query_position) body(tile);
    }
}

/// Dropout draws by places in whole sequences; `shape` counts the tokens held.
inline Attention shape_in_tile(const Attention& shape, const Head& head, const AttentionPair& pair,
                               const Tile& tile) {
  Attention in_tile = shape;
  const int64_t before = head.sequence * shape.all_heads + shape.first_head + head.head;
  in_tile.dropout.first_row +=
      before * (pair.queries.length - shape.length) + tile.query_position - tile.query_row;
  return in_tile;
}

inline QueryBlock block_in_tile(const Attention& shape, const Tile& tile, int64_t first) {
  const int64_t step = query_block(shape), left = tile.size - first;
  const int64_t rows = left < step ? left : step;
  // Beyond the diagonal a block's own keys are the last ones that any of its queries sees.
  if (tile.key_position < tile.query_position)
    return {tile.query_row + first, rows, tile.size, tile.size};
  return {tile.query_row + first, rows, first + rows, first};
}

inline KeySide keys_in_tile(const Attention& shape, const Head& head, const Tile& tile,
                            const float* keys) {
  const int64_t row = head.sequence * shape.length + tile.key_row;
  const float* key = keys + row * shape.keys_width() + head.group(shape) * shape.head_dim;
  return {key, key + shape.groups * shape.head_dim, shape.keys_width(), tile.key_position};
}

inline constexpr float no_sum = -3.4e38F;

/// Scores become the probabilities among all keys so far; `out` is scaled to the same.
inline void merge_softmax_block(const Attention& shape, const Head& head, const QueryBlock& block,
                                int64_t first_key, float* scores, float* out, float* sums) {
  const float scale = attention_scale(shape);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = scores + i * block.keys;
    const int64_t seen = block.seen(i);
    const float shift = scale * largest(seen, row);
    const float part = shift + __builtin_logf(exponentials(seen, scale, shift, row));
    const float old = sums[block.first + i], top = old > part ? old : part;
    const float sum = top + __builtin_logf(exponential(old - top) + exponential(part - top));
    sums[block.first + i] = sum;
    scale_row(seen, exponential(shift - sum), row);
    scale_row(shape.head_dim, exponential(old - sum), out + i * shape.heads * shape.head_dim);
    if (shape.dropout.probability > 0)
      dropped_row(seen, head.dropout_row_of(shape, block.first + i), shape.dropout, nullptr, row,
                  row, first_key);
    zero_row(block.keys - seen, row + seen);
  }
}

inline void attention_tile(const Attention& shape, const Head& head, const Tile& tile,
                           const float* query, const KeySide& keys, float* out, float* sums,
                           float* scores) {
  const int64_t out_stride = shape.heads * shape.head_dim;
  for (int64_t first = 0; first < tile.size; first += query_block(shape)) {
    const QueryBlock block = block_in_tile(shape, tile, first);
    float* to = out + head.output_offset(shape) + block.first * out_stride;
    score_block(shape, block, query, keys, scores);
    merge_softmax_block(shape, head, block, keys.position, scores, to,
                        sums + head.sum_offset(shape));
    multiply({.m = block.rows,
              .n = shape.head_dim,
              .k = block.keys,
              .a = scores,
              .a_stride = block.keys,
              .b = keys.value,
              .b_stride = keys.stride,
              .c = to,
              .c_stride = out_stride,
              .beta = 1});
  }
}

inline void attention_head_part(const Attention& shape, const Head& head, const AttentionPair& pair,
                                const float* qkv, const float* keys, float* out, float* sums,
                                float* scores) {
  for_each_tile(pair, [&](const Tile& tile) {
    attention_tile(shape_in_tile(shape, head, pair, tile), head, tile,
                   qkv + head.query_offset(shape), keys_in_tile(shape, head, tile, keys), out, sums,
                   scores);
  });
}

/// `scores`: two blocks of them.
inline void attention_head_part_backward(const Attention& shape, const Head& head,
                                         const AttentionPair& pair, const float* qkv,
                                         const float* keys, const AttentionGradients& gradients,
                                         float* scores) {
  const int64_t square = query_block(shape) * pair.queries.piece_length();
  for_each_tile(pair, [&](const Tile& tile) {
    const KeySide side = keys_in_tile(shape, head, tile, keys);
    float* key_gradient = gradients.keys + (side.key - keys);
    const HeadGradients to{scores,
                           scores + square,
                           key_gradient,
                           key_gradient + (side.value - side.key),
                           side.stride,
                           gradients.queries + head.output_offset(shape),
                           shape.heads * shape.head_dim,
                           1};
    for (int64_t first = 0; first < tile.size; first += query_block(shape))
      attention_block_backward(shape_in_tile(shape, head, pair, tile), head,
                               block_in_tile(shape, tile, first), qkv + head.query_offset(shape),
                               side, {gradients.out, gradients.out_gradient, gradients.sums}, to);
  });
}

}  // namespace
}  // namespace triplepoint::trainer
