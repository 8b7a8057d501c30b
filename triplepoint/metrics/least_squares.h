// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace triplepoint::metrics {

/// Collects equations y = sum of a[k] x[k] one by one, then solves them in the least-squares sense.
/// For a handful of unknowns: normal equations, Gauss-Jordan with pivots.
class LeastSquares {
 public:
  explicit LeastSquares(size_t unknowns);
  void add(const std::vector<double>& a, double y);

  struct Solution {
    std::vector<double> x;
    std::vector<double> deviation;  // one standard deviation of each, from the residuals
  };
  /// Nothing where the equations do not tell the unknowns apart, or leave no residual to judge by.
  std::optional<Solution> solve() const;

 private:
  size_t unknowns_, equations_ = 0;
  std::vector<double> products_;  // A'A, row by row
  std::vector<double> right_;     // A'y
  double squares_ = 0;            // y'y
};

}  // namespace triplepoint::metrics
