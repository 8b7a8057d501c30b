// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/cuda/plugin/gpu.h"
#include "trainer/cuda/plugin/multiply.h"

namespace triplepoint::trainer::cuda {

/// Math on a GPU: products by cuBLASLt, everything else by the kernels of kernels/. Values are bf16
/// in memory where the precision is bf16, so every store rounds.
class GpuMath final : public Math {
 public:
  GpuMath(Gpu&, Rounding);
  ~GpuMath() override;
  GpuMath(const GpuMath&) = delete;
  GpuMath& operator=(const GpuMath&) = delete;

  float* allocate(int64_t n, Storage) override;
  void release(float* array) override { gpu_.arena().release(array); }
  int64_t bytes_each(Storage storage) const override {
    return rounds_ && storage == Storage::value ? 2 : 4;
  }
  void put(int64_t n, const float* host, float* x) override;
  void fetch(int64_t n, const float* x, float* host) override;
  void finish() override { gpu_.finish(gpu_.stream()); }
  bool on_host() const override { return false; }
  /// Refuses heads that the kernels beside tensor cores cannot keep a tile of.
  Result<void> check_attention(const Attention&) const;

  void gemm(const Gemm&) override;
  void round(int64_t n, float* x) override;
  void norm(const Norm&, const float* x, const float* gain, const float* bias, float* y,
            float* statistics) override;
  void norm_backward(const Norm&, const float* x, const float* gain, const float* statistics,
                     const float* dy, float* dx, float* gain_gradient,
                     float* bias_gradient) override;
  void rotary(const Rotary&, float* x) override;
  void attention(const Attention&, const float* qkv, float* out, float* sums) override;
  void attention_backward(const Attention&, float* qkv, const float* out, const float* out_gradient,
                          const float* sums) override;
  void causal_softmax(int64_t matrices, int64_t length, float scale, float* scores) override;
  void softmax_backward(int64_t matrices, int64_t length, float scale, const float* p,
                        float* gradient) override;
  void activation(Nonlinearity, int64_t rows, int64_t width, const float* z, const float* bias,
                  float* y) override;
  void activation_backward(Nonlinearity, int64_t rows, int64_t width, float* z, const float* bias,
                           const float* dy) override;
  void add_bias(int64_t rows, int64_t width, int64_t stride, const float* bias, float* x) override;
  void add_column_sums(int64_t rows, int64_t width, int64_t stride, const float* x,
                       float* sums) override;
  void residual(int64_t rows, int64_t width, const Dropout&, const float* x, const float* branch,
                float* y) override;
  void dropout(int64_t rows, int64_t width, const Dropout&, const float* x, float* y) override;
  void copy(int64_t n, const float* x, float* y) override;
  void copy_matrix(int64_t rows, int64_t width, const float* x, int64_t x_stride, float* y,
                   int64_t y_stride) override;
  void zero(int64_t n, float* x) override;
  void add(int64_t n, const float* x, float* y) override;
  void scale(int64_t n, float factor, float* x) override;
  double sum_of_squares(int64_t n, const float* x) override;
  void lookup(int64_t tokens, int64_t width, const int32_t* words, int64_t first, int64_t held,
              const float* table, float* y) override;
  void add_lookup_gradient(int64_t tokens, int64_t width, const int32_t* words, int64_t first,
                           int64_t held, const float* dy, float* gradient) override;
  void row_maximum(const LogitShape&, const float* logits, float* maximum) override;
  void loss_sums(const LogitShape&, const int32_t* targets, const float* maximum, float* logits,
                 float* target_logit, float* sum) override;
  void loss_backward(const LogitShape&, const int32_t* targets, const float* sum, float weight,
                     float* exponentials) override;
  void add_losses(int64_t rows, const float* sum, const float* target) override;
  double take_losses() override;
  void top_k(int64_t rows, int64_t experts, int64_t k, const float* scores, int32_t* chosen,
             float* weights) override;
  void top_k_backward(int64_t rows, int64_t experts, int64_t k, const float* scores,
                      const int32_t* chosen, const float* weights, const float* weight_gradient,
                      float* score_gradient) override;
  void gather_rows(int64_t count, int64_t width, const int32_t* row_of, const float* x,
                   float* y) override;
  void scatter_rows(int64_t count, int64_t width, const int32_t* row_of, const float* x,
                    float* y) override;
  void combine_rows(int64_t rows, int64_t width, int64_t k, const int32_t* place,
                    const float* weights, const float* x, float* y) override;
  void combine_backward(int64_t rows, int64_t width, int64_t k, const int32_t* place,
                        const float* weights, const float* dy, float* x,
                        float* weight_gradient) override;
  void adamw(const AdamW&, int64_t n, const float* gradient, float* first, float* second,
             float* master, float* value) override;

 private:
  /// Memory that is kept from one call to the next; what is in it is of no meaning. Work on one
  /// stream uses it in order.
  class Scratch {
   public:
    explicit Scratch(Gpu& gpu) : gpu_(gpu) {}
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    Array at_least(int64_t count, bool bf16);

   private:
    Gpu& gpu_;
    float* array_ = nullptr;
    int64_t bytes_ = 0;
  };

  Array at(const float* x) const { return gpu_.arena().at(x); }
  const Gpu::Functions& kernels() const { return gpu_.functions(); }
  Array as_value(const Array&, int64_t rows, int64_t width, int64_t stride, Scratch&);
  void gather(const GatherRows& rows, int64_t count);
  void scatter(int64_t count, int64_t width, const std::vector<int64_t>& rows, const float* x,
               float* y);
  void attend_in_blocks(const Attention&, const Array& qkv, const Array& out, float* sums);
  void attend_in_blocks_backward(const Attention&, const Array& qkv, const Array& out_gradient,
                                 const float* sums, const float* along);
  bool has_blocks(const Attention&, bool bf16) const;
  double fetch_double(const void* place);
  double* doubles();

  Gpu& gpu_;
  bool rounds_;
  Multiplier multiplier_;
  Scratch left_, right_, slopes_, along_, scores_, more_scores_, kept_, more_kept_;
  float* doubles_ = nullptr;  // partial sums of squares, their total, the losses' total
};

}  // namespace triplepoint::trainer::cuda
