// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/cuda/kernels/array.h"

// What needs the sum or the largest of a row or a column: body(block).
namespace triplepoint::trainer::cuda {

inline constexpr int row_threads = 256;
using RowBlock = Block<row_threads>;

/// One row per block.
struct NormRows {
  Norm norm;
  Array x, gain, bias, y;
  float* statistics;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t row = block.index(), at = row * norm.width;
    const auto width = static_cast<float>(norm.width);
    RowBlock::PerThread<float> part;
    float mean = 0;
    if (norm.centered) {
      block.each([&](int t) {
        part[t] = 0;
        for (int64_t c = t; c < norm.width; c += row_threads)
          part[t] += x[at + c];
      });
      mean = block.sum(part) / width;
    }
    block.each([&](int t) {
      part[t] = 0;
      for (int64_t c = t; c < norm.width; c += row_threads)
        part[t] += (x[at + c] - mean) * (x[at + c] - mean);
    });
    const float deviation = 1.0F / __builtin_sqrtf(block.sum(part) / width + norm.epsilon);
    block.each([&](int t) {
      if (t == 0) statistics[2 * row] = mean, statistics[2 * row + 1] = deviation;
      for (int64_t c = t; c < norm.width; c += row_threads)
        y.put(at + c, (x[at + c] - mean) * deviation * gain[c] + (bias.there() ? bias[c] : 0.0F));
    });
  }
};

/// One row per block; adds to dx.
struct NormRowsBackward {
  Norm norm;
  Array x, gain, dy, dx;
  const float* statistics;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t row = block.index(), at = row * norm.width;
    const float center = statistics[2 * row], deviation = statistics[2 * row + 1];
    const auto width = static_cast<float>(norm.width);
    RowBlock::PerThread<float> sums, alongs;
    block.each([&](int t) {
      sums[t] = alongs[t] = 0;
      for (int64_t c = t; c < norm.width; c += row_threads) {
        const float slope = dy[at + c] * gain[c];
        sums[t] += slope;
        alongs[t] += slope * (x[at + c] - center) * deviation;
      }
    });
    const float sum = block.sum(sums), along = block.sum(alongs) / width;
    const float mean = norm.centered ? sum / width : 0.0F;
    block.each([&](int t) {
      for (int64_t c = t; c < norm.width; c += row_threads)
        dx.add(at + c, deviation * (dy[at + c] * gain[c] - mean -
                                    (x[at + c] - center) * deviation * along));
    });
  }
};

inline constexpr int column_lanes = 8;  // 32 columns per block, and this many rows at a time

/// Adds column sums of dy x^ and of dy (each where there is a place for it) over all rows; without
/// statistics, x^ is 1.
struct ColumnSums {
  int64_t rows, width, stride;
  Array x, dy, scaled_sums, sums;
  const float* statistics;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    float* scaled_part = block.memory();
    float* part = scaled_part + row_threads;
    block.each([&](int t) {
      const int64_t c = block.index() * 32 + t % 32;
      float scaled = 0, plain = 0;
      if (c < width)
        for (int64_t r = t / 32; r < rows; r += column_lanes) {
          const float slope = dy[r * stride + c];
          plain += slope;
          if (scaled_sums.there())
            scaled += slope * (x[r * stride + c] - statistics[2 * r]) * statistics[2 * r + 1];
        }
      scaled_part[t] = scaled;
      part[t] = plain;
    });
    block.each([&](int t) {
      const int64_t c = block.index() * 32 + t;
      if (t >= 32 || c >= width) return;
      float scaled = 0, plain = 0;
      for (int lane = 0; lane < column_lanes; ++lane) {
        scaled += scaled_part[lane * 32 + t];
        plain += part[lane * 32 + t];
      }
      if (scaled_sums.there()) scaled_sums.add(c, scaled);
      if (sums.there()) sums.add(c, plain);
    });
  }
};

/// Row r of a square: columns up to the diagonal.
struct CausalSoftmax {
  int64_t length;
  float scale;
  Array scores;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t at = block.index() * length, seen = block.index() % length + 1;
    RowBlock::PerThread<float> part;
    block.each([&](int t) {
      part[t] = -3.4e38F;
      for (int64_t c = t; c < seen; c += row_threads)
        part[t] = largest_of(part[t], scores[at + c]);
    });
    const float shift = scale * block.maximum(part);
    block.each([&](int t) {
      part[t] = 0;
      for (int64_t c = t; c < seen; c += row_threads)
        part[t] += exponential(scores[at + c] * scale - shift);
    });
    const float factor = 1.0F / block.sum(part);
    block.each([&](int t) {
      for (int64_t c = t; c < length; c += row_threads)
        scores.put(at + c, c < seen ? exponential(scores[at + c] * scale - shift) * factor : 0.0F);
    });
  }
};

struct SoftmaxBackward {
  int64_t length;
  float scale;
  Array p, gradient;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t at = block.index() * length;
    RowBlock::PerThread<float> part;
    block.each([&](int t) {
      part[t] = 0;
      for (int64_t c = t; c < length; c += row_threads)
        part[t] += p[at + c] * gradient[at + c];
    });
    const float along = block.sum(part);
    block.each([&](int t) {
      for (int64_t c = t; c < length; c += row_threads)
        gradient.put(at + c, p[at + c] * (gradient[at + c] - along) * scale);
    });
  }
};

struct RowMaximum {
  LogitShape shape;
  Array logits, maximum;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t at = block.index() * shape.width;
    RowBlock::PerThread<float> part;
    block.each([&](int t) {
      part[t] = -3.4e38F;
      for (int64_t c = t; c < shape.valid; c += row_threads)
        part[t] = largest_of(part[t], logits[at + c]);
    });
    const float most = block.maximum(part);
    block.each([&](int t) {
      if (t == 0) maximum.put(block.index(), most);
    });
  }
};

struct LossSums {
  LogitShape shape;
  const int32_t* targets;
  Array maximum, logits, target_logit, sum;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t row = block.index(), at = row * shape.width;
    const float shift = maximum[row];
    const int64_t column = targets[row] - shape.first;
    RowBlock::PerThread<float> part;
    block.each([&](int t) {
      if (t != 0) return;
      const bool held = column >= 0 && column < shape.valid;
      target_logit.put(row, held ? logits[at + column] - shift : 0.0F);
    });
    block.each([&](int t) {
      part[t] = 0;
      for (int64_t c = t; c < shape.width; c += row_threads) {
        const float e = c < shape.valid ? exponential(logits[at + c] - shift) : 0.0F;
        logits.put(at + c, e);
        part[t] += e;
      }
    });
    const float all = block.sum(part);
    block.each([&](int t) {
      if (t == 0) sum.put(row, all);
    });
  }
};

/// One block: total += log(sum) - target.
struct AddLosses {
  int64_t rows;
  Array sum, target;
  double* total;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    RowBlock::PerThread<double> part;
    block.each([&](int t) {
      part[t] = 0;
      for (int64_t r = t; r < rows; r += row_threads)
        part[t] += __builtin_log(static_cast<double>(sum[r])) - static_cast<double>(target[r]);
    });
    const double all = block.sum(part);
    block.each([&](int t) {
      if (t == 0) *total += all;
    });
  }
};

/// Each block's share of the squares; with x absent, one block adds up the shares.
struct Squares {
  int64_t n, blocks;
  Array x;
  double* shares;  // [blocks + 1], the last one the total
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    RowBlock::PerThread<double> part;
    block.each([&](int t) {
      part[t] = 0;
      if (x.there())
        for (int64_t i = block.index() * row_threads + t; i < n; i += blocks * row_threads)
          part[t] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      else
        for (int64_t i = t; i < blocks; i += row_threads)
          part[t] += shares[i];
    });
    const double all = block.sum(part);
    block.each([&](int t) {
      if (t == 0) shares[x.there() ? block.index() : blocks] = all;
    });
  }
};

/// Copy j of row r per block: dx[place] = weight dy[r], in the place of x; gradient = x . dy.
struct CombineBackward {
  int64_t k, width;
  const int32_t* place;
  Array weights, dy, x, weight_gradient;
  TPT_HOST_DEVICE void operator()(const RowBlock& block) const {
    const int64_t j = block.index(), in = j / k * width;
    const int64_t out = place[j] * width;
    RowBlock::PerThread<float> part;
    block.each([&](int t) {
      part[t] = 0;
      if (place[j] < 0) return;
      for (int64_t c = t; c < width; c += row_threads) {
        const float slope = dy[in + c];
        part[t] += slope * x[out + c];
        x.put(out + c, weights[j] * slope);
      }
    });
    const float along = block.sum(part);
    block.each([&](int t) {
      if (t == 0) weight_gradient.put(j, along);
    });
  }
};

}  // namespace triplepoint::trainer::cuda
