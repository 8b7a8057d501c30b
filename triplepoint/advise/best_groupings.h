// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace triplepoint::advise {

/// The groupings of ascending values into 1, 2, ... groups that leave the least scatter (sum of
/// squares around the groups' means): k-means in one dimension, exactly.
///
///   left(k, end) = min over begin of left(k - 1, begin) + scatter(begin, end)
///
/// The best begin moves monotonically with the end, so a row takes n log n.
/// Source: Wu, J. Algorithms 12, 1991; Wang and Song, R Journal 3, 2011 (Ckmeans.1d.dp).
class BestGroupings {
 public:
  BestGroupings(const std::vector<double>& ascending, std::size_t most);

  double left(std::size_t groups) const { return left_[groups - 1][n_]; }
  /// Where each of the groups ends.
  std::vector<std::size_t> ends(std::size_t groups) const;

 private:
  double scatter(std::size_t begin, std::size_t end) const;
  /// Row k (groups less one) at ends first..last, whose last groups begin between low and high.
  void fill(std::size_t k, std::size_t first, std::size_t last, std::size_t low, std::size_t high);

  std::size_t n_;
  std::vector<double> sums_, squares_;
  std::vector<std::vector<double>> left_;         // [groups - 1][end]
  std::vector<std::vector<std::size_t>> begins_;  // [groups - 2][end]: of the last group
};

}  // namespace triplepoint::advise
