// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/least_squares.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "triplepoint/base/expect.h"

namespace triplepoint::metrics {

namespace {

constexpr double singular = 1e-10;  // a pivot, relative to its diagonal element

/// Inverts a symmetric matrix in place; false if it is singular.
bool invert(std::vector<double>& matrix, size_t n) {
  std::vector<double> scale, inverse(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    scale.push_back(std::abs(matrix[i * n + i]));
    inverse[i * n + i] = 1;
  }
  for (size_t column = 0; column < n; ++column) {
    const double pivot = matrix[column * n + column];
    if (std::abs(pivot) <= singular * std::max(scale[column], 1e-300)) return false;
    for (size_t k = 0; k < n; ++k) {
      matrix[column * n + k] /= pivot;
      inverse[column * n + k] /= pivot;
    }
    for (size_t row = 0; row < n; ++row) {
      const double factor = matrix[row * n + column];
      if (row == column || factor == 0) continue;
      for (size_t k = 0; k < n; ++k) {
        matrix[row * n + k] -= factor * matrix[column * n + k];
        inverse[row * n + k] -= factor * inverse[column * n + k];
      }
    }
  }
  matrix = std::move(inverse);
  return true;
}

}  // namespace

LeastSquares::LeastSquares(size_t unknowns)
    : unknowns_(unknowns), products_(unknowns * unknowns, 0.0), right_(unknowns, 0.0) {}

void LeastSquares::add(const std::vector<double>& a, double y) {
  TPT_EXPECT(a.size() == unknowns_);
  for (size_t i = 0; i < unknowns_; ++i) {
    if (a[i] == 0) continue;
    right_[i] += a[i] * y;
    for (size_t j = 0; j < unknowns_; ++j)
      products_[i * unknowns_ + j] += a[i] * a[j];
  }
  squares_ += y * y;
  ++equations_;
}

std::optional<LeastSquares::Solution> LeastSquares::solve() const {
  if (equations_ <= unknowns_) return std::nullopt;
  std::vector<double> inverse = products_;
  if (!invert(inverse, unknowns_)) return std::nullopt;
  Solution solution;
  double residual = squares_;
  for (size_t i = 0; i < unknowns_; ++i) {
    double x = 0;
    for (size_t j = 0; j < unknowns_; ++j)
      x += inverse[i * unknowns_ + j] * right_[j];
    solution.x.push_back(x);
    residual -= x * right_[i];
  }
  const double variance = std::max(0.0, residual) / static_cast<double>(equations_ - unknowns_);
  for (size_t i = 0; i < unknowns_; ++i)
    solution.deviation.push_back(std::sqrt(variance * std::max(0.0, inverse[i * unknowns_ + i])));
  return solution;
}

}  // namespace triplepoint::metrics
