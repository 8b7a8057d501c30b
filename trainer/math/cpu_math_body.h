// SPDX-License-Identifier: Apache-2.0
// Each instruction set includes it in its own file, with TPT_NEW_CPU_MATH as its own name.
#pragma once

#include <cstdlib>

#include "trainer/math/cpu_attention.h"
#include "trainer/math/cpu_vectors.h"

namespace triplepoint::trainer {
namespace {

class CpuMath final : public Math {
 public:
  CpuMath() = default;
  CpuMath(const CpuMath&) = delete;
  CpuMath& operator=(const CpuMath&) = delete;
  ~CpuMath() override { std::free(scratch_); }

  void gemm(const Gemm& g) override {
    if (g.m == 0 || g.n == 0) return;
    multiply(g);
  }

  void norm(const Norm& norm, const float* x, const float* gain, const float* bias, float* y,
            float* statistics) override {
    for (int64_t i = 0; i < norm.rows; ++i) {
      const RowMoments row = moments_of(norm, row_at(x, i, norm.width));
      statistics[2 * i] = row.mean;
      statistics[2 * i + 1] = row.deviation;
      norm_row(norm, row, row_at(x, i, norm.width), gain, bias, row_at(y, i, norm.width));
    }
  }
  void norm_backward(const Norm& norm, const float* x, const float* gain, const float* statistics,
                     const float* dy, float* dx, float* gain_gradient,
                     float* bias_gradient) override {
    for (int64_t i = 0; i < norm.rows; ++i) {
      const RowMoments row{statistics[2 * i], statistics[2 * i + 1]};
      const float* in = row_at(x, i, norm.width);
      const float* slope = row_at(dy, i, norm.width);
      norm_row_backward(norm, row, in, gain, slope, row_at(dx, i, norm.width));
      if (gain_gradient != nullptr) add_gain_gradient(norm, row, in, slope, gain_gradient);
      if (bias_gradient != nullptr) add_row(norm.width, slope, bias_gradient);
    }
  }

  void rotary(const Rotary& shape, float* x) override {
    const int64_t half = shape.head_dim / 2;
    for (int64_t t = 0; t < shape.tokens; ++t) {
      const float* cosine = shape.table + t % shape.length * shape.head_dim;
      for (int64_t h = 0; h < shape.heads; ++h)
        turn(half, cosine, cosine + half, shape.backward ? -1.0F : 1.0F,
             x + t * shape.stride + h * shape.head_dim);
    }
  }

  void attention(const Attention& shape, const float* qkv, float* out, float* sums) override {
    float* scores = scratch(shape.length * shape.length);
    for (int64_t s = 0; s < shape.sequences; ++s)
      for (int64_t h = 0; h < shape.heads; ++h)
        attention_head(shape, head_at(shape, s, h), qkv, out, sums, scores);
  }
  void attention_backward(const Attention& shape, float* qkv, const float* out,
                          const float* out_gradient, const float* sums) override {
    float* space = scratch(attention_scratch(shape));
    for (int64_t s = 0; s < shape.sequences; ++s)
      for (int64_t h = 0; h < shape.heads; h += shape.heads / shape.groups)
        attention_group_backward(shape, s, h, qkv, {out, out_gradient, sums}, space);
  }

  void activation(Nonlinearity kind, int64_t rows, int64_t width, const float* z, const float* bias,
                  float* y) override {
    const int64_t gates = kind == Nonlinearity::swiglu ? 2 : 1;
    float* biased = bias != nullptr ? scratch(gates * width) : nullptr;
    for (int64_t i = 0; i < rows; ++i) {
      const float* in = row_at(z, i, gates * width);
      if (bias != nullptr) {
        for (int64_t j = 0; j < gates * width; ++j)
          biased[j] = in[j] + bias[j];
        in = biased;
      }
      activate_row(kind, width, in, in + (gates - 1) * width, row_at(y, i, width));
    }
  }
  void activation_backward(Nonlinearity kind, int64_t rows, int64_t width, float* z,
                           const float* bias, const float* dy) override {
    const int64_t gates = kind == Nonlinearity::swiglu ? 2 : 1;
    for (int64_t i = 0; i < rows; ++i) {
      float* in = row_at(z, i, gates * width);
      if (bias != nullptr) add_row(gates * width, bias, in);
      activate_row_backward(kind, width, in, in + width, row_at(dy, i, width));
    }
  }

  void add_bias(int64_t rows, int64_t width, int64_t stride, const float* bias, float* x) override {
    for (int64_t i = 0; i < rows; ++i)
      add_row(width, bias, x + i * stride);
  }
  void add_column_sums(int64_t rows, int64_t width, int64_t stride, const float* x,
                       float* sums) override {
    for (int64_t i = 0; i < rows; ++i)
      add_row(width, x + i * stride, sums);
  }

  void copy(int64_t n, const float* x, float* y) override { copy_row(n, x, y); }
  void zero(int64_t n, float* x) override { zero_row(n, x); }
  void add(int64_t n, const float* x, float* y) override { add_row(n, x, y); }
  double sum_of_squares(int64_t n, const float* x) override {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; ++j)
      sum += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    return sum;
  }

  void lookup(int64_t tokens, int64_t width, const int32_t* words, int64_t first, int64_t held,
              const float* table, float* y) override {
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t row = words[i] - first;
      if (row >= 0 && row < held)
        copy_row(width, row_at(table, row, width), row_at(y, i, width));
      else
        zero_row(width, row_at(y, i, width));
    }
  }
  void add_lookup_gradient(int64_t tokens, int64_t width, const int32_t* words, int64_t first,
                           int64_t held, const float* dy, float* gradient) override {
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t row = words[i] - first;
      if (row >= 0 && row < held)
        add_row(width, row_at(dy, i, width), row_at(gradient, row, width));
    }
  }

  void row_maximum(const LogitShape& shape, const float* logits, float* maximum) override {
    for (int64_t i = 0; i < shape.rows; ++i)
      maximum[i] = largest(shape.valid, row_at(logits, i, shape.width));
  }
  void loss_sums(const LogitShape& shape, const int32_t* targets, const float* maximum,
                 float* logits, float* target_logit, float* sum) override {
    for (int64_t i = 0; i < shape.rows; ++i)
      loss_sums_row(shape, targets[i], maximum[i], row_at(logits, i, shape.width), target_logit + i,
                    sum + i);
  }
  void loss_backward(const LogitShape& shape, const int32_t* targets, const float* sum,
                     float weight, float* e) override {
    for (int64_t i = 0; i < shape.rows; ++i) {
      float* row = row_at(e, i, shape.width);
      scale_row(shape.valid, weight / sum[i], row);
      const int64_t column = held_target(shape, targets[i]);
      if (column >= 0) row[column] -= weight;
    }
  }

  void adamw(const AdamW& step, int64_t n, const float* gradient, float* first, float* second,
             float* value) override {
    adamw_row(step, n, gradient, first, second, value);
  }

 private:
  float* scratch(int64_t n) {
    if (n <= held_) return scratch_;
    std::free(scratch_);
    held_ = (n + 4095) / 4096 * 4096;
    scratch_ =
        static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(held_) * sizeof(float)));
    return scratch_;
  }

  float* scratch_ = nullptr;
  int64_t held_ = 0;
};

}  // namespace

Math* TPT_NEW_CPU_MATH() {
  return new CpuMath();
}

}  // namespace triplepoint::trainer
