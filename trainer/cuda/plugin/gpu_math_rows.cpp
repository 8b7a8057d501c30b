// SPDX-License-Identifier: Apache-2.0
// Words, logits and routed rows: what takes whole numbers from the host.
#include <algorithm>
#include <numeric>

#include "trainer/cuda/plugin/gpu_math.h"

// The parameters are those of Math.
// NOLINTBEGIN(readability-function-size)
namespace triplepoint::trainer::cuda {
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
  gpu_.libraries().check(
      gpu_.driver().to_host(chosen, there, static_cast<size_t>(rows * k) * 4, gpu_.stream()),
      "copy from the GPU");
  finish();  // the host deals out the rows
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
