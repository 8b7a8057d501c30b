// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/gpu_math.h"

// The parameters are those of Math.
// NOLINTBEGIN(readability-function-size)

#include <algorithm>
#include <numeric>
#include <vector>

namespace triplepoint::trainer::cuda {
namespace {

constexpr int64_t square_blocks = 512;
constexpr int64_t column_memory = int64_t{8} * row_threads;  // bytes: two floats a thread
constexpr int64_t losses_at = square_blocks + 1;
constexpr int64_t double_count = square_blocks + 2;

int64_t bytes_of(const Array& array, int64_t n) {
  return n * (array.bf16 != 0 ? 2 : 4);
}

int64_t tiles(int64_t n, int64_t tile) {
  return (n + tile - 1) / tile;
}

}  // namespace

GpuMath::Scratch::~Scratch() {
  if (array_ != nullptr) gpu_.arena().release(array_);
}

Array GpuMath::Scratch::at_least(int64_t count, bool bf16) {
  const int64_t bytes = count * (bf16 ? 2 : 4);
  if (bytes > bytes_) {
    if (array_ != nullptr) gpu_.arena().release(array_);
    array_ = nullptr;
    array_ = gpu_.allocate((bytes + 3) / 4, false);
    bytes_ = bytes;
  }
  return {gpu_.arena().at(array_).data, bf16 ? 1 : 0};
}

GpuMath::GpuMath(Gpu& gpu, Rounding rounding)
    : gpu_(gpu),
      rounds_(rounding == Rounding::bf16),
      multiplier_(gpu),
      left_(gpu),
      right_(gpu),
      slopes_(gpu),
      along_(gpu),
      scores_(gpu),
      more_scores_(gpu),
      kept_(gpu),
      more_kept_(gpu) {}

GpuMath::~GpuMath() {
  if (doubles_ != nullptr) gpu_.arena().release(doubles_);
}

double* GpuMath::doubles() {
  if (doubles_ == nullptr) {
    doubles_ = gpu_.allocate(2 * double_count, false);
    zero(2 * double_count, doubles_);
  }
  return static_cast<double*>(at(doubles_).data);
}

float* GpuMath::allocate(int64_t n, Storage storage) {
  return gpu_.allocate(n, rounds_ && storage == Storage::value);
}

void GpuMath::put(int64_t n, const float* host, float* x) {
  if (n == 0) return;
  const Array to = at(x);
  std::vector<float> numbers(host, host + n);
  // In place, from the front: a bf16 is half as long as the float that it was.
  const Array packed{numbers.data(), to.bf16};
  for (int64_t i = 0; to.bf16 != 0 && i < n; ++i)
    packed.put(i, host[i]);
  gpu_.libraries().check(
      gpu_.driver().to_device(to.data, numbers.data(), static_cast<size_t>(bytes_of(to, n)),
                              gpu_.stream()),
      "copy to the GPU");
  finish();
}

void GpuMath::fetch(int64_t n, const float* x, float* host) {
  if (n == 0) return;
  const Array from = at(x);
  std::vector<float> numbers(static_cast<size_t>(n));
  gpu_.fetch(numbers.data(), from.data, bytes_of(from, n));
  const Array packed{numbers.data(), from.bf16};
  for (int64_t i = 0; i < n; ++i)
    host[i] = packed[i];
}

/// An operand in the precision of products, packed; itself where it is that already.
Array GpuMath::as_value(const Array& x, int64_t rows, int64_t width, int64_t stride,
                        Scratch& scratch) {
  const Array y = scratch.at_least(rows * width, true);
  gpu_.each(kernels().Copy, Copy{x, y, stride, width}, rows, width);
  return y;
}

void GpuMath::gemm(const Gemm& wanted) {
  if (wanted.m == 0 || wanted.n == 0) return;
  Gemm g = wanted;
  Array a = at(g.a), b = at(g.b);
  if (a.bf16 == 0 && b.bf16 != 0) {
    a = as_value(a, g.a_transposed ? g.k : g.m, g.a_transposed ? g.m : g.k, g.a_stride, left_);
    g.a_stride = g.a_transposed ? g.m : g.k;
  }
  if (b.bf16 == 0 && a.bf16 != 0) {
    b = as_value(b, g.b_transposed ? g.n : g.k, g.b_transposed ? g.k : g.n, g.b_stride, right_);
    g.b_stride = g.b_transposed ? g.k : g.n;
  }
  multiplier_.multiply(g, a, b, at(g.c));
}

void GpuMath::round(int64_t n, float* x) {
  const Array array = at(x);
  if (rounds_ && array.bf16 == 0) gpu_.each(kernels().RoundToBf16, RoundToBf16{array}, 1, n);
}

void GpuMath::norm(const Norm& norm, const float* x, const float* gain, const float* bias, float* y,
                   float* statistics) {
  gpu_.blocks(
      kernels().NormRows,
      NormRows{norm, at(x), at(gain), at(bias), at(y), static_cast<float*>(at(statistics).data)},
      {norm.rows});
}

void GpuMath::norm_backward(const Norm& norm, const float* x, const float* gain,
                            const float* statistics, const float* dy, float* dx,
                            float* gain_gradient, float* bias_gradient) {
  const auto* moments = static_cast<const float*>(at(statistics).data);
  gpu_.blocks(kernels().NormRowsBackward,
              NormRowsBackward{norm, at(x), at(gain), at(dy), at(dx), moments}, {norm.rows});
  if (gain_gradient == nullptr && bias_gradient == nullptr) return;
  const ColumnSums sums{norm.rows, norm.width,        norm.width,        at(x),
                        at(dy),    at(gain_gradient), at(bias_gradient), moments};
  gpu_.blocks(kernels().ColumnSums, sums, {tiles(norm.width, 32)}, column_memory);
}

void GpuMath::rotary(const Rotary& shape, float* x) {
  const int64_t half = shape.head_dim / 2;
  const Rotate rotate{at(x),
                      static_cast<const float*>(at(shape.table).data),
                      shape.length,
                      shape.stride,
                      static_cast<int32_t>(half),
                      shape.backward ? -1.0F : 1.0F};
  gpu_.each(kernels().Rotate, rotate, shape.tokens, shape.heads * half);
}

void GpuMath::causal_softmax(int64_t matrices, int64_t length, float scale, float* scores) {
  gpu_.blocks(kernels().CausalSoftmax, CausalSoftmax{length, scale, at(scores)},
              {matrices * length});
}

void GpuMath::softmax_backward(int64_t matrices, int64_t length, float scale, const float* p,
                               float* gradient) {
  gpu_.blocks(kernels().SoftmaxBackward, SoftmaxBackward{length, scale, at(p), at(gradient)},
              {matrices * length});
}

void GpuMath::activation(Nonlinearity kind, int64_t rows, int64_t width, const float* z,
                         const float* bias, float* y) {
  gpu_.each(kernels().Activate, Activate{kind, width, at(z), at(bias), at(y)}, rows, width);
}

void GpuMath::activation_backward(Nonlinearity kind, int64_t rows, int64_t width, float* z,
                                  const float* bias, const float* dy) {
  gpu_.each(kernels().ActivateBackward, ActivateBackward{kind, width, at(z), at(bias), at(dy)},
            rows, width);
}

void GpuMath::add_bias(int64_t rows, int64_t width, int64_t stride, const float* bias, float* x) {
  gpu_.each(kernels().AddBias, AddBias{at(bias), at(x), stride}, rows, width);
}

void GpuMath::add_column_sums(int64_t rows, int64_t width, int64_t stride, const float* x,
                              float* sums) {
  gpu_.blocks(kernels().ColumnSums,
              ColumnSums{rows, width, stride, {}, at(x), {}, at(sums), nullptr}, {tiles(width, 32)},
              column_memory);
}

void GpuMath::residual(int64_t rows, int64_t width, const Dropout& dropout, const float* x,
                       const float* branch, float* y) {
  gpu_.each(kernels().Residual, Residual{at(x), at(branch), at(y), width, dropout}, rows, width);
}

void GpuMath::dropout(int64_t rows, int64_t width, const Dropout& dropout, const float* x,
                      float* y) {
  gpu_.each(kernels().Residual, Residual{{}, at(x), at(y), width, dropout}, rows, width);
}

void GpuMath::copy(int64_t n, const float* x, float* y) {
  if (n == 0) return;
  const Array from = at(x), to = at(y);
  if (from.bf16 != to.bf16) return gpu_.each(kernels().Copy, Copy{from, to, 0, 0}, 1, n);
  gpu_.libraries().check(
      gpu_.driver().copy(to.data, from.data, static_cast<size_t>(bytes_of(to, n)), gpu_.stream()),
      "copy");
}

void GpuMath::copy_matrix(int64_t rows, int64_t width, const float* x, int64_t x_stride, float* y,
                          int64_t y_stride) {
  gpu_.each(kernels().Copy, Copy{at(x), at(y), x_stride, y_stride}, rows, width);
}

void GpuMath::zero(int64_t n, float* x) {
  if (n == 0) return;
  const Array array = at(x);
  gpu_.libraries().check(
      gpu_.driver().fill(array.data, 0, static_cast<size_t>(bytes_of(array, n)), gpu_.stream()),
      "clear memory");
}

void GpuMath::add(int64_t n, const float* x, float* y) {
  gpu_.each(kernels().Add, Add{at(x), at(y)}, 1, n);
}

void GpuMath::scale(int64_t n, float factor, float* x) {
  gpu_.each(kernels().Scale, Scale{at(x), factor}, 1, n);
}

double GpuMath::fetch_double(const void* place) {
  double number = 0;
  gpu_.fetch(&number, place, sizeof number);
  return number;
}

double GpuMath::sum_of_squares(int64_t n, const float* x) {
  if (n == 0) return 0;
  Squares squares{n, square_blocks, at(x), doubles()};
  gpu_.blocks(kernels().Squares, squares, {square_blocks});
  squares.x = {};
  gpu_.blocks(kernels().Squares, squares, {1});
  return fetch_double(doubles() + square_blocks);
}

void GpuMath::add_losses(int64_t rows, const float* sum, const float* target) {
  gpu_.blocks(kernels().AddLosses, AddLosses{rows, at(sum), at(target), doubles() + losses_at},
              {1});
}

double GpuMath::take_losses() {
  const double losses = fetch_double(doubles() + losses_at);
  gpu_.libraries().check(
      gpu_.driver().fill(doubles() + losses_at, 0, sizeof(double), gpu_.stream()), "clear memory");
  return losses;
}

void GpuMath::adamw(const AdamW& step, int64_t n, const float* gradient, float* first,
                    float* second, float* master, float* value) {
  const Array apart = value == master ? Array() : at(value);
  gpu_.each(kernels().StepAdamW,
            StepAdamW{step, at(gradient), at(first), at(second), at(master), apart}, 1, n);
}

}  // namespace triplepoint::trainer::cuda

// NOLINTEND(readability-function-size)

namespace triplepoint::trainer::cuda {

// Words, logits and routed rows: what takes whole numbers from the host.

// The parameters are those of Math.
// NOLINTBEGIN(readability-function-size)

namespace {

constexpr int64_t all_rows = int64_t{1} << 40;

/// Whole numbers of a kernel side by side, uploaded at once: the ring must not come round between
/// them.
class Upload {
 public:
  int64_t add(const int32_t* numbers, int64_t count) {
    const auto first = static_cast<int64_t>(numbers_.size());
    numbers_.insert(numbers_.end(), numbers, numbers + count);
    return first;
  }
  const int32_t* send(Gpu& gpu) {
    return gpu.upload(numbers_.data(), static_cast<int64_t>(numbers_.size()));
  }

 private:
  std::vector<int32_t> numbers_;
};

}  // namespace

void GpuMath::gather(const GatherRows& rows, int64_t count) {
  if (count == 0) return;
  GatherRows on_device = rows;
  on_device.ids = gpu_.upload(rows.ids, count);
  gpu_.each(kernels().GatherRows, on_device, count, rows.width);
}

void GpuMath::lookup(int64_t tokens, int64_t width, const int32_t* words, int64_t first,
                     int64_t held, const float* table, float* y) {
  gather({words, first, held, width, at(table), at(y)}, tokens);
}

void GpuMath::gather_rows(int64_t count, int64_t width, const int32_t* row_of, const float* x,
                          float* y) {
  if (count > 0) gather({row_of, 0, all_rows, width, at(x), at(y)}, count);
}

/// y[rows[i]] += x[i], -1 left out: sorted by target here, so that the device adds in one order.
void GpuMath::scatter(int64_t count, int64_t width, const std::vector<int64_t>& rows,
                      const float* x, float* y) {
  std::vector<int32_t> order, targets, starts;
  for (int64_t i = 0; i < count; ++i)
    if (rows[static_cast<size_t>(i)] >= 0) order.push_back(static_cast<int32_t>(i));
  const auto target = [&](int32_t i) { return static_cast<int32_t>(rows[static_cast<size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return target(a) < target(b); });
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && target(order[i]) == targets.back()) continue;
    targets.push_back(target(order[i]));
    starts.push_back(static_cast<int32_t>(i));
  }
  if (targets.empty()) return;
  starts.push_back(static_cast<int32_t>(order.size()));
  Upload upload;
  const auto add = [&](const std::vector<int32_t>& numbers) {
    return upload.add(numbers.data(), static_cast<int64_t>(numbers.size()));
  };
  const int64_t targets_at = add(targets), starts_at = add(starts), order_at = add(order);
  const int32_t* sent = upload.send(gpu_);
  gpu_.each(kernels().ScatterRows,
            ScatterRows{sent + targets_at, sent + starts_at, sent + order_at, width, at(x), at(y)},
            static_cast<int64_t>(targets.size()), width);
}

void GpuMath::add_lookup_gradient(int64_t tokens, int64_t width, const int32_t* words,
                                  int64_t first, int64_t held, const float* dy, float* gradient) {
  std::vector<int64_t> rows(static_cast<size_t>(tokens));
  std::transform(words, words + tokens, rows.begin(), [&](int32_t word) {
    const int64_t row = word - first;
    return row >= 0 && row < held ? row : -1;
  });
  scatter(tokens, width, rows, dy, gradient);
}

void GpuMath::scatter_rows(int64_t count, int64_t width, const int32_t* row_of, const float* x,
                           float* y) {
  scatter(count, width, {row_of, row_of + count}, x, y);
}

void GpuMath::row_maximum(const LogitShape& shape, const float* logits, float* maximum) {
  gpu_.blocks(kernels().RowMaximum, RowMaximum{shape, at(logits), at(maximum)}, {shape.rows});
}

void GpuMath::loss_sums(const LogitShape& shape, const int32_t* targets, const float* maximum,
                        float* logits, float* target_logit, float* sum) {
  gpu_.blocks(kernels().LossSums,
              LossSums{shape, gpu_.upload(targets, shape.rows), at(maximum), at(logits),
                       at(target_logit), at(sum)},
              {shape.rows});
}

void GpuMath::loss_backward(const LogitShape& shape, const int32_t* targets, const float* sum,
                            float weight, float* exponentials) {
  gpu_.each(
      kernels().LossBackward,
      LossBackward{shape, gpu_.upload(targets, shape.rows), at(sum), at(exponentials), weight},
      shape.rows, shape.width);
}

void GpuMath::top_k(int64_t rows, int64_t experts, int64_t k, const float* scores, int32_t* chosen,
                    float* weights) {
  if (rows == 0) return;
  auto* there = static_cast<int32_t*>(along_.at_least(rows * k, false).data);
  gpu_.each(kernels().TopK, TopK{experts, k, at(scores), at(weights), there}, 1, rows);
  gpu_.fetch(chosen, there, rows * k * 4);  // the host deals out the rows
}

void GpuMath::top_k_backward(int64_t rows, int64_t experts, int64_t k, const float* scores,
                             const int32_t* chosen, const float* weights,
                             const float* weight_gradient, float* score_gradient) {
  if (rows == 0) return;
  const TopKBackward backward{experts,
                              k,
                              at(scores),
                              at(weights),
                              at(weight_gradient),
                              at(score_gradient),
                              gpu_.upload(chosen, rows * k)};
  gpu_.each(kernels().TopKBackward, backward, 1, rows);
}

void GpuMath::combine_rows(int64_t rows, int64_t width, int64_t k, const int32_t* place,
                           const float* weights, const float* x, float* y) {
  if (rows == 0) return;
  gpu_.each(kernels().CombineRows,
            CombineRows{k, width, gpu_.upload(place, rows * k), at(weights), at(x), at(y)}, rows,
            width);
}

void GpuMath::combine_backward(int64_t rows, int64_t width, int64_t k, const int32_t* place,
                               const float* weights, const float* dy, float* x,
                               float* weight_gradient) {
  if (rows == 0) return;
  gpu_.blocks(kernels().CombineBackward,
              CombineBackward{k, width, gpu_.upload(place, rows * k), at(weights), at(dy), at(x),
                              at(weight_gradient)},
              {rows * k});
}

}  // namespace triplepoint::trainer::cuda

// NOLINTEND(readability-function-size)
