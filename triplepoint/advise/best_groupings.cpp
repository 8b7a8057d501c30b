// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/best_groupings.h"

#include <algorithm>
#include <numeric>

namespace triplepoint::advise {

BestGroupings::BestGroupings(const std::vector<double>& ascending, size_t most)
    : n_(ascending.size()), sums_(n_ + 1), squares_(n_ + 1) {
  // Around the mean, so that sums of squares keep their digits.
  const double mean =
      std::accumulate(ascending.begin(), ascending.end(), 0.0) / static_cast<double>(n_);
  for (size_t i = 0; i < n_; ++i) {
    const double x = ascending[i] - mean;
    sums_[i + 1] = sums_[i] + x;
    squares_[i + 1] = squares_[i] + x * x;
  }
  left_.emplace_back(n_ + 1);
  for (size_t end = 1; end <= n_; ++end)
    left_[0][end] = scatter(0, end);
  for (size_t k = 1; k < std::min(most, n_); ++k) {
    left_.emplace_back(n_ + 1);
    begins_.emplace_back(n_ + 1);
    fill(k, k + 1, n_, k, n_ - 1);
  }
}

std::vector<size_t> BestGroupings::ends(size_t groups) const {
  std::vector<size_t> ends(groups, n_);
  for (size_t k = groups - 1; k > 0; --k)
    ends[k - 1] = begins_[k - 1][ends[k]];
  return ends;
}

double BestGroupings::scatter(size_t begin, size_t end) const {
  const double sum = sums_[end] - sums_[begin];
  const double within =
      squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin);
  return std::max(0.0, within);
}

void BestGroupings::fill(size_t k, size_t first, size_t last, size_t low, size_t high) {
  if (first > last) return;
  const size_t end = first + (last - first) / 2;
  size_t best = low;
  double least = -1;
  for (size_t begin = low; begin <= std::min(high, end - 1); ++begin) {
    const double left = left_[k - 1][begin] + scatter(begin, end);
    if (least < 0 || left < least) least = left, best = begin;
  }
  left_[k][end] = least;
  begins_[k - 1][end] = best;
  if (end > first) fill(k, first, end - 1, low, best);
  fill(k, end + 1, last, best, high);
}

}  // namespace triplepoint::advise
