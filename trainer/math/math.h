// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace triplepoint::trainer {

enum class Nonlinearity { gelu, swiglu, squared_relu };

/// C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C. Row major; strides in elements.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  bool a_transposed = false;
  const float* b = nullptr;
  int64_t b_stride = 0;
  bool b_transposed = false;
  float* c = nullptr;
  int64_t c_stride = 0;
  float alpha = 1, beta = 0;
};

/// LayerNorm (centered) or RMSNorm of rows. `statistics`: mean and reciprocal deviation of each
/// row.
struct Norm {
  int64_t rows = 0, width = 0;
  bool centered = true;
  float epsilon = 1e-5F;
};

/// Rotary embedding of `heads` heads side by side, halves turned against each other. `table`:
/// [length][head_dim] cosines then sines.
struct Rotary {
  int64_t tokens = 0, length = 0, heads = 0, head_dim = 0, stride = 0;
  const float* table = nullptr;
  bool backward = false;
};

/// Causal attention over whole sequences. Rows of `qkv`: queries of all heads, keys of all groups,
/// values of all groups.
struct Attention {
  int64_t sequences = 0, length = 0, heads = 0, groups = 0, head_dim = 0;

  int64_t width() const { return (heads + 2 * groups) * head_dim; }
};

/// Part of a row of logits: columns [first, first + width) of the vocabulary, of which `valid` are
/// words and the rest is padding that takes no part.
struct LogitShape {
  int64_t rows = 0, width = 0, valid = 0, first = 0;
};

struct AdamW {
  float rate = 0, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, decay = 0;
  float correction1 = 1, correction2 = 1;  // 1 - beta^step
  float gradient_scale = 1;                // of clipping
};

/// Everything a training computes. Compiled once per instruction set, hence the interface.
///
/// Vectors of a backward pass: "adds" means that the result is added to what is there. Pointers
/// that may be null say so.
class Math {
 public:
  virtual ~Math() = default;

  virtual void gemm(const Gemm&) = 0;

  virtual void norm(const Norm&, const float* x, const float* gain, const float* bias, float* y,
                    float* statistics) = 0;  // bias may be null
  /// Adds to dx, and to the gradients of gain and bias where they are not null.
  virtual void norm_backward(const Norm&, const float* x, const float* gain,
                             const float* statistics, const float* dy, float* dx,
                             float* gain_gradient, float* bias_gradient) = 0;

  virtual void rotary(const Rotary&, float* x) = 0;

  /// `sums`: log of the sum of exponentials, [sequence][head][query].
  virtual void attention(const Attention&, const float* qkv, float* out, float* sums) = 0;
  /// Writes the gradients over `qkv`.
  virtual void attention_backward(const Attention&, float* qkv, const float* out,
                                  const float* out_gradient, const float* sums) = 0;
  /// y[rows, width] from z[rows, width or 2 width] + bias (may be null); SwiGLU: gate, then up.
  virtual void activation(Nonlinearity, int64_t rows, int64_t width, const float* z,
                          const float* bias, float* y) = 0;
  /// Writes dz over z.
  virtual void activation_backward(Nonlinearity, int64_t rows, int64_t width, float* z,
                                   const float* bias, const float* dy) = 0;

  virtual void add_bias(int64_t rows, int64_t width, int64_t stride, const float* bias,
                        float* x) = 0;
  /// Adds sums over rows to `sums`.
  virtual void add_column_sums(int64_t rows, int64_t width, int64_t stride, const float* x,
                               float* sums) = 0;

  virtual void copy(int64_t n, const float* x, float* y) = 0;
  virtual void zero(int64_t n, float* x) = 0;
  virtual void add(int64_t n, const float* x, float* y) = 0;  // y += x
  virtual double sum_of_squares(int64_t n, const float* x) = 0;

  /// Rows of `table` ([words, width], holding words first...); a word of others gives zeros.
  virtual void lookup(int64_t tokens, int64_t width, const int32_t* words, int64_t first,
                      int64_t held, const float* table, float* y) = 0;
  virtual void add_lookup_gradient(int64_t tokens, int64_t width, const int32_t* words,
                                   int64_t first, int64_t held, const float* dy,
                                   float* gradient) = 0;

  virtual void row_maximum(const LogitShape&, const float* logits, float* maximum) = 0;
  /// Logits become exponentials; writes the target's logit less the maximum (0 where another rank
  /// holds it) and the sum.
  virtual void loss_sums(const LogitShape&, const int32_t* targets, const float* maximum,
                         float* logits, float* target_logit, float* sum) = 0;
  /// Exponentials become gradients, each token's counting `weight`.
  virtual void loss_backward(const LogitShape&, const int32_t* targets, const float* sum,
                             float weight, float* exponentials) = 0;

  /// One step.
  virtual void adamw(const AdamW&, int64_t n, const float* gradient, float* first, float* second,
                     float* value) = 0;
};

/// The widest vectors this processor has; OpenBLAS with one thread a rank.
std::unique_ptr<Math> make_cpu_math();

}  // namespace triplepoint::trainer
