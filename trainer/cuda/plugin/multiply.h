// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>

#include "trainer/cuda/plugin/gpu.h"

namespace triplepoint::trainer::cuda {

/// Matrix products by cuBLASLt. What it chooses for a shape is kept.
///
/// cuBLASLt counts columns first: C = op(A) op(B) by rows is C^T = op(B)^T op(A)^T by columns, and
/// a matrix by rows is its transpose by columns, so operands change places and nothing is moved.
class Multiplier {
 public:
  explicit Multiplier(Gpu&);
  ~Multiplier();
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  void multiply(const Gemm&, Array a, Array b, Array c);

 private:
  /// All that the choice depends on: sizes, strides, ways, types, alignments.
  using Key = std::array<int64_t, 12>;
  struct Plan {
    Matmul matmul = nullptr;
    Layout a = nullptr, b = nullptr, c = nullptr;
    MatmulChoice choice{};
  };

  const Plan& plan_for(const Gemm&, const Array& a, const Array& b, const Array& c);
  Plan make_plan(const Gemm&, const Array& a, const Array& b, const Array& c);
  Layout layout(const Array&, int64_t rows, int64_t columns, int64_t stride) const;
  void choose(const Array& a, const Array& b, const Array& c, Plan&);

  Gpu& gpu_;
  Blas blas_ = nullptr;
  DevicePointer workspace_ = 0;
  std::map<Key, Plan> plans_;
};

}  // namespace triplepoint::trainer::cuda
