// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::thermal {

/// A small dense matrix, column after column. A chassis has a few dozen nodes, so plain loops over
/// memory that fits the first-level cache are all the linear algebra heat needs; a library's matrix
/// exponential alone would take a minute to compile.
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), values_(as_size(rows * columns)) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  double& operator()(int64_t row, int64_t column) { return values_[as_size(column * rows_ + row)]; }
  double operator()(int64_t row, int64_t column) const {
    return values_[as_size(column * rows_ + row)];
  }
  const double* column(int64_t index) const { return values_.data() + index * rows_; }
  double* column(int64_t index) { return values_.data() + index * rows_; }

  friend bool operator==(const Matrix&, const Matrix&) = default;

 private:
  int64_t rows_ = 0, columns_ = 0;
  std::vector<double> values_;
};

Matrix identity(int64_t size);
Matrix multiply(const Matrix& a, const Matrix& b);

/// x of a x = b, by elimination with partial pivoting. `a` must not be singular.
Matrix solve(Matrix a, Matrix b);

/// out += a x, for one vector.
void multiply_add(const Matrix& a, const double* x, double* out);

/// exp(a t) of a heat network.
///
///   exp(a t) = (e^(-q h) sum_k ((a + q I) h)^k / k!)^(2^s),   h = t / 2^s,   q = -min a_ii
///
/// t: seconds; a: per second; s: chosen so that the sum is short. Every term is positive when a's
/// off-diagonal is, as in a heat network, so nothing cancels and even entries far below 1 are right
/// to about 2^s rounding errors. Any other matrix works too, only without that promise.
/// No eigenvectors: air that moves one way makes `a` nearly defective.
/// Source: uniformization (A. Jensen 1953), scaling and squaring (Moler and Van Loan 2003).
Matrix exponential(const Matrix& a, double t);

/// Eigenvalues and orthonormal eigenvectors (columns) of a symmetric matrix, by Jacobi rotations.
struct SymmetricModes {
  std::vector<double> values;
  Matrix vectors;
};
SymmetricModes symmetric_modes(Matrix a);

}  // namespace triplepoint::thermal
