// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "trainer/cuda/plugin/gpu.h"

namespace triplepoint::trainer::cuda {

/// Matrix products by cuBLASLt. What it proposes for a shape is tried in its order, and the first
/// that works is kept; where none does, a plain kernel multiplies and the user is told.
///
/// cuBLASLt counts columns first: C = op(A) op(B) by rows is C^T = op(B)^T op(A)^T by columns, and
/// a matrix by rows is its transpose by columns, so operands change places and nothing is moved.
class Multiplier {
 public:
  explicit Multiplier(Gpu&);
  ~Multiplier();
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  /// The same product of several matrices, each `stride` elements after the one before; 0: of the
  /// same one.
  struct Batch {
    int64_t count = 1, a = 0, b = 0, c = 0;
  };
  void multiply(const Gemm& g, const Array& a, const Array& b, const Array& c) {
    multiply(g, a, b, c, Batch());
  }
  void multiply(const Gemm&, const Array& a, const Array& b, const Array& c, const Batch&);

 private:
  /// All that the choice depends on: sizes, strides, ways, types, alignments.
  using Key = std::array<int64_t, 14>;
  struct Plan {
    Matmul matmul = nullptr;
    Layout a = nullptr, b = nullptr, c = nullptr;
    std::vector<MatmulChoice> choices;  // not tried yet, best first, then the one that works
    std::string refused;                // what cuBLASLt said of the last one
    bool works = false, told = false;
  };

  struct Operands {
    Array a, b, c;
  };
  Plan& plan_for(const Gemm&, const Operands&, const Batch&);
  Plan make_plan(const Gemm&, const Operands&, const Batch&);
  Layout layout(const Array&, int64_t rows, int64_t columns, int64_t stride) const;
  void repeat(Layout, int64_t count, int64_t stride) const;
  void choose(const Operands&, Plan&);
  int multiply_by(const Plan&, const Gemm&, const Operands&) const;
  bool multiply_by_library(Plan&, const Gemm&, const Operands&) const;
  void multiply_plainly(const Gemm&, const Operands&, const Batch&) const;
  void tell(const Plan&, const Gemm&, const Operands&, const Batch&);

  Gpu& gpu_;
  Blas blas_ = nullptr;
  DevicePointer workspace_ = nullptr;
  std::map<Key, Plan> plans_;
  int told_ = 0;
};

}  // namespace triplepoint::trainer::cuda
