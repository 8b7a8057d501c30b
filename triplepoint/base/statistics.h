// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint {

inline double mean(std::span<const double> values) {
  TPT_EXPECT(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// A value of the list: the one at floor(share * (n - 1)) in ascending order.
template <class T>
T lower_quantile(std::vector<T> values, double share) {
  TPT_EXPECT(!values.empty());
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

/// As lower_quantile(), with straight lines between the values of the list.
inline double quantile(std::vector<double> values, double share) {
  TPT_EXPECT(!values.empty());
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

/// The value in the middle; of an even count the mean of the two in the middle.
inline double median(std::vector<double> values) {
  TPT_EXPECT(!values.empty());
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

/// How far values scatter around their median, as a standard deviation that outliers do not change:
/// the median absolute deviation times 1.4826, which for a normal distribution is sigma.
inline double robust_deviation(std::vector<double> values) {
  const double middle = median(values);
  for (double& value : values)
    value = value < middle ? middle - value : value - middle;
  return 1.4826 * median(std::move(values));
}

/// The value in the middle; of an even count the lower of the two, so that it is in the list.
template <class T>
T lower_median(std::vector<T> values) {
  return lower_quantile(std::move(values), 0.5);
}

/// The same, of an even count the upper one.
template <class T>
T upper_median(std::vector<T> values) {
  TPT_EXPECT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Smallest, median and largest of a quantity over ranks, with the ranks that have them. The median
/// is the lower one of an even count, so that it, too, is some rank's value.
struct RankSpread {
  double minimum = 0, median = 0, maximum = 0;
  int32_t minimum_rank = -1, median_rank = -1, maximum_rank = -1;
};
struct RankValue {
  int32_t rank = 0;
  double value = 0;
};
/// Nothing for no ranks. Of equal values the lowest rank counts.
std::optional<RankSpread> spread_of(std::vector<RankValue>);

}  // namespace triplepoint
