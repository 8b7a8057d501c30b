// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/cuda/kernels/rows.h"

// Causal attention in tiles: scores of a tile exist at a time, in the block's memory. Forward:
// running largest and sum of each query's row (Milakov, Gimelshein 2018; Dao et al. 2022,
// FlashAttention); backward: probabilities again from the kept log of the sum. Any size of head,
// any storage; sums in fp32.
namespace triplepoint::trainer::cuda {

inline constexpr int query_tile = 16, key_tile = 32;

/// Where a head of a sequence lies, and its tile: blocks are (tile, head or group, sequence).
struct AttentionPlace {
  Attention shape;
  float scale;

  TPT_HOST_DEVICE int64_t stride() const {
    return (shape.heads + 2 * shape.groups) * shape.head_dim;
  }
  TPT_HOST_DEVICE int64_t query(int64_t sequence, int64_t head, int64_t i) const {
    return (sequence * shape.length + i) * stride() + head * shape.head_dim;
  }
  TPT_HOST_DEVICE int64_t key(int64_t sequence, int64_t group, int64_t j) const {
    return (sequence * shape.length + j) * stride() + (shape.heads + group) * shape.head_dim;
  }
  TPT_HOST_DEVICE int64_t value(int64_t sequence, int64_t group, int64_t j) const {
    return key(sequence, group, j) + shape.groups * shape.head_dim;
  }
  TPT_HOST_DEVICE int64_t output(int64_t sequence, int64_t head, int64_t i) const {
    return ((sequence * shape.length + i) * shape.heads + head) * shape.head_dim;
  }
  TPT_HOST_DEVICE int64_t sum(int64_t sequence, int64_t head, int64_t i) const {
    return (sequence * shape.heads + head) * shape.length + i;
  }
  /// What dropout multiplies the probability of (i, j) by.
  TPT_HOST_DEVICE float dropped(int64_t sequence, int64_t head, int64_t i, int64_t j) const {
    if (shape.dropout.probability <= 0) return 1;
    const int64_t row = (sequence * shape.all_heads + shape.first_head + head) * shape.length + i;
    const uint64_t key = dropout_row(shape.dropout.site, shape.dropout.first_row + row);
    const uint32_t threshold = dropout_threshold(shape.dropout.probability);
    return is_kept(key, static_cast<uint32_t>(j), threshold)
               ? 1.0F / (1.0F - shape.dropout.probability)
               : 0.0F;
  }
};

/// Rows [first, first + count) of a tile into the block's memory; zeros past the end.
struct TileRows {
  Array x;
  int64_t first_at, stride, left;  // rows before the end of the sequence
  int width;
  TPT_HOST_DEVICE void load(int t, int rows, float* tile) const {
    for (int i = t; i < rows * width; i += row_threads) {
      const int r = i / width;
      tile[i] = r < left ? x[first_at + r * stride + i % width] : 0.0F;
    }
  }
};

TPT_HOST_DEVICE inline float dot_of(const float* a, const float* b, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

struct AttentionForward {
  AttentionPlace at;
  Array qkv, out;
  float* sums;

  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const auto d = static_cast<int>(at.shape.head_dim);
    const int64_t first = block.index() * query_tile, head = block.second_index();
    const int64_t sequence = block.third_index();
    const int64_t group = head / (at.shape.heads / at.shape.groups), length = at.shape.length;
    float* query = block.memory();
    float* key = query + query_tile * d;
    float* value = key + key_tile * d;
    float* result = value + key_tile * d;
    float* scores = result + query_tile * d;
    float* largest = scores + query_tile * key_tile;
    float* sum = largest + query_tile;
    float* factor = sum + query_tile;
    block.each([&](int t) {
      TileRows{qkv, at.query(sequence, head, first), at.stride(), length - first, d}.load(
          t, query_tile, query);
      for (int i = t; i < query_tile * d; i += row_threads)
        result[i] = 0;
      if (t < query_tile) largest[t] = -3.4e38F, sum[t] = 0;
    });
    for (int64_t from = 0; from < first + query_tile && from < length; from += key_tile) {
      block.each([&](int t) {
        TileRows{qkv, at.key(sequence, group, from), at.stride(), length - from, d}.load(
            t, key_tile, key);
        TileRows{qkv, at.value(sequence, group, from), at.stride(), length - from, d}.load(
            t, key_tile, value);
      });
      block.each([&](int t) {
        for (int i = t; i < query_tile * key_tile; i += row_threads) {
          const int q = i / key_tile, k = i % key_tile;
          scores[i] =
              from + k <= first + q ? at.scale * dot_of(query + q * d, key + k * d, d) : -3.4e38F;
        }
      });
      block.each([&](int t) {
        if (t >= query_tile) return;
        float* row = scores + t * key_tile;
        float most = largest[t];
        for (int k = 0; k < key_tile; ++k)
          most = largest_of(most, row[k]);
        factor[t] = exponential(largest[t] - most);
        sum[t] *= factor[t];
        for (int k = 0; k < key_tile; ++k) {
          const float p = from + k <= first + t ? exponential(row[k] - most) : 0.0F;
          sum[t] += p;
          row[k] = p * at.dropped(sequence, head, first + t, from + k);
        }
        largest[t] = most;
      });
      block.each([&](int t) {
        for (int i = t; i < query_tile * d; i += row_threads) {
          const int q = i / d, c = i % d;
          float x = result[i] * factor[q];
          for (int k = 0; k < key_tile; ++k)
            x += scores[q * key_tile + k] * value[k * d + c];
          result[i] = x;
        }
      });
    }
    block.each([&](int t) {
      for (int i = t; i < query_tile * d; i += row_threads) {
        const int64_t q = first + i / d;
        if (q < length) out.put(at.output(sequence, head, q) + i % d, result[i] / sum[i / d]);
      }
      if (t < query_tile && first + t < length)
        sums[at.sum(sequence, head, first + t)] = largest[t] + __builtin_logf(sum[t]);
    });
  }

  static int64_t memory(int64_t d) {
    return 4 * ((2 * query_tile + 2 * key_tile) * d + query_tile * (key_tile + 3));
  }
};

/// along[sum(...)] = out . out_gradient of one query; blocks are (query, head, sequence).
struct AttentionAlong {
  AttentionPlace at;
  Array out, out_gradient;
  float* along;
  TPT_HOST_DEVICE void operator()(const Block<32>& block) const {
    const int64_t i = block.index(), head = block.second_index(), s = block.third_index();
    const int64_t place = at.output(s, head, i);
    Block<32>::PerThread<float> part;
    block.each([&](int t) {
      part[t] = 0;
      for (int64_t c = t; c < at.shape.head_dim; c += 32)
        part[t] += out[place + c] * out_gradient[place + c];
    });
    const float sum = block.sum(part);
    block.each([&](int t) {
      if (t == 0) along[at.sum(s, head, i)] = sum;
    });
  }
};

/// What both backward kernels work on. Gradients go into an array of the shape of qkv.
struct AttentionSlopes {
  AttentionPlace at;
  Array qkv, out_gradient, gradient;
  const float *sums, *along;

  /// Probability and slope of the score of (i, j), from rows in the block's memory.
  TPT_HOST_DEVICE float probability(int64_t s, int64_t head, int64_t i, float score) const {
    return exponential(at.scale * score - sums[at.sum(s, head, i)]);
  }
  TPT_HOST_DEVICE float slope(int64_t s, int64_t head, int64_t i, float p, float out_dot) const {
    return p * (out_dot - along[at.sum(s, head, i)]) * at.scale;
  }
};

/// Gradients of queries; blocks are (query tile, head, sequence).
struct AttentionQueries {
  AttentionSlopes to;

  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const AttentionPlace& at = to.at;
    const auto d = static_cast<int>(at.shape.head_dim);
    const int64_t first = block.index() * query_tile, head = block.second_index();
    const int64_t sequence = block.third_index();
    const int64_t group = head / (at.shape.heads / at.shape.groups), length = at.shape.length;
    float* query = block.memory();
    float* slope = query + query_tile * d;  // of the output
    float* result = slope + query_tile * d;
    float* key = result + query_tile * d;
    float* value = key + key_tile * d;
    float* scores = value + key_tile * d;
    block.each([&](int t) {
      TileRows{to.qkv, at.query(sequence, head, first), at.stride(), length - first, d}.load(
          t, query_tile, query);
      TileRows{to.out_gradient, at.output(sequence, head, first), at.shape.heads * d,
               length - first, d}
          .load(t, query_tile, slope);
      for (int i = t; i < query_tile * d; i += row_threads)
        result[i] = 0;
    });
    for (int64_t from = 0; from < first + query_tile && from < length; from += key_tile) {
      block.each([&](int t) {
        TileRows{to.qkv, at.key(sequence, group, from), at.stride(), length - from, d}.load(
            t, key_tile, key);
        TileRows{to.qkv, at.value(sequence, group, from), at.stride(), length - from, d}.load(
            t, key_tile, value);
      });
      block.each([&](int t) {
        for (int i = t; i < query_tile * key_tile; i += row_threads) {
          const int q = i / key_tile, k = i % key_tile;
          scores[i] = 0;
          if (from + k > first + q || first + q >= length) continue;
          const float p =
              to.probability(sequence, head, first + q, dot_of(query + q * d, key + k * d, d));
          const float along = dot_of(slope + q * d, value + k * d, d) *
                              at.dropped(sequence, head, first + q, from + k);
          scores[i] = to.slope(sequence, head, first + q, p, along);
        }
      });
      block.each([&](int t) {
        for (int i = t; i < query_tile * d; i += row_threads)
          for (int k = 0; k < key_tile; ++k)
            result[i] += scores[i / d * key_tile + k] * key[k * d + i % d];
      });
    }
    block.each([&](int t) {
      for (int i = t; i < query_tile * d; i += row_threads)
        if (first + i / d < length)
          to.gradient.put(at.query(sequence, head, first + i / d) + i % d, result[i]);
    });
  }

  static int64_t memory(int64_t d) {
    return 4 * ((3 * query_tile + 2 * key_tile) * d + query_tile * key_tile);
  }
};

/// Gradients of keys and values, over all heads of their group; blocks are (key tile, group,
/// sequence).
struct AttentionKeys {
  AttentionSlopes to;

  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const AttentionPlace& at = to.at;
    const auto d = static_cast<int>(at.shape.head_dim);
    const int64_t from = block.index() * key_tile, group = block.second_index();
    const int64_t sequence = block.third_index(), length = at.shape.length;
    const int64_t heads = at.shape.heads / at.shape.groups;
    float* key = block.memory();
    float* value = key + key_tile * d;
    float* key_result = value + key_tile * d;
    float* value_result = key_result + key_tile * d;
    float* query = value_result + key_tile * d;
    float* slope = query + query_tile * d;
    float* scores = slope + query_tile * d;  // slopes of scores, then dropped probabilities
    float* kept = scores + query_tile * key_tile;
    block.each([&](int t) {
      TileRows{to.qkv, at.key(sequence, group, from), at.stride(), length - from, d}.load(
          t, key_tile, key);
      TileRows{to.qkv, at.value(sequence, group, from), at.stride(), length - from, d}.load(
          t, key_tile, value);
      for (int i = t; i < key_tile * d; i += row_threads)
        key_result[i] = value_result[i] = 0;
    });
    for (int64_t head = group * heads; head < (group + 1) * heads; ++head)
      for (int64_t first = from / query_tile * query_tile; first < length; first += query_tile) {
        block.each([&](int t) {
          TileRows{to.qkv, at.query(sequence, head, first), at.stride(), length - first, d}.load(
              t, query_tile, query);
          TileRows{to.out_gradient, at.output(sequence, head, first), at.shape.heads * d,
                   length - first, d}
              .load(t, query_tile, slope);
        });
        block.each([&](int t) {
          for (int i = t; i < query_tile * key_tile; i += row_threads) {
            const int q = i / key_tile, k = i % key_tile;
            scores[i] = kept[i] = 0;
            if (from + k > first + q || first + q >= length) continue;
            const float p =
                to.probability(sequence, head, first + q, dot_of(query + q * d, key + k * d, d));
            const float dropped = at.dropped(sequence, head, first + q, from + k);
            kept[i] = p * dropped;
            scores[i] = to.slope(sequence, head, first + q, p,
                                 dot_of(slope + q * d, value + k * d, d) * dropped);
          }
        });
        block.each([&](int t) {
          for (int i = t; i < key_tile * d; i += row_threads)
            for (int q = 0; q < query_tile; ++q) {
              key_result[i] += scores[q * key_tile + i / d] * query[q * d + i % d];
              value_result[i] += kept[q * key_tile + i / d] * slope[q * d + i % d];
            }
        });
      }
    block.each([&](int t) {
      for (int i = t; i < key_tile * d; i += row_threads) {
        const int64_t j = from + i / d;
        if (j >= length) continue;
        to.gradient.put(at.key(sequence, group, j) + i % d, key_result[i]);
        to.gradient.put(at.value(sequence, group, j) + i % d, value_result[i]);
      }
    });
  }

  static int64_t memory(int64_t d) {
    return 4 * ((4 * key_tile + 2 * query_tile) * d + 2 * query_tile * key_tile);
  }
};

/// A block of queries against all keys up to its last one, scores by matrix products: [head][query
/// - first][key], heads [first_head, ...) of one sequence. Blocks are (query, head).
struct ScoreBlock {
  AttentionPlace at;
  int64_t sequence, first_head, first, rows, keys;

  TPT_HOST_DEVICE int64_t row_at(int64_t head, int64_t row) const {
    return (head * rows + row) * keys;
  }
};

/// scores -> probabilities that dropout left, and the log of their sum.
struct BlockSoftmax {
  ScoreBlock part;
  Array scores, kept;
  float* sums;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t row = block.index(), head = part.first_head + block.second_index();
    const int64_t place = part.row_at(block.second_index(), row), query = part.first + row;
    const float scale = part.at.scale;
    RowBlock::PerThread<float> own;
    block.each([&](int t) {
      own[t] = -3.4e38F;
      for (int64_t k = t; k <= query; k += row_threads)
        own[t] = largest_of(own[t], scores[place + k]);
    });
    const float shift = scale * block.maximum(own);
    block.each([&](int t) {
      own[t] = 0;
      for (int64_t k = t; k <= query; k += row_threads)
        own[t] += exponential(scores[place + k] * scale - shift);
    });
    const float sum = block.sum(own);
    block.each([&](int t) {
      if (t == 0) sums[part.at.sum(part.sequence, head, query)] = shift + __builtin_logf(sum);
      for (int64_t k = t; k < part.keys; k += row_threads) {
        const float p = k <= query ? exponential(scores[place + k] * scale - shift) / sum : 0.0F;
        kept.put(place + k, p * part.at.dropped(part.sequence, head, query, k));
      }
    });
  }
};

/// scores and slopes of the probabilities -> probabilities that dropout left, slopes of the scores.
struct BlockSlopes {
  ScoreBlock part;
  AttentionSlopes to;
  Array scores, out_dots, kept, slopes;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t row = block.index(), head = part.first_head + block.second_index();
    const int64_t place = part.row_at(block.second_index(), row), query = part.first + row;
    block.each([&](int t) {
      for (int64_t k = t; k < part.keys; k += row_threads) {
        float p = 0, slope = 0;
        if (k <= query) {
          const float dropped = part.at.dropped(part.sequence, head, query, k);
          p = to.probability(part.sequence, head, query, scores[place + k]);
          slope = to.slope(part.sequence, head, query, p, out_dots[place + k] * dropped);
          p *= dropped;
        }
        kept.put(place + k, p);
        slopes.put(place + k, slope);
      }
    });
  }
};

}  // namespace triplepoint::trainer::cuda
