// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "triplepoint/base/expect.h"

namespace triplepoint {

/// The value in the middle; of an even count the lower of the two, so that it is one that was seen.
/// There has to be one.
template <class T>
T lower_median(std::vector<T> values) {
  TPT_EXPECT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The same, of an even count the upper one.
template <class T>
T upper_median(std::vector<T> values) {
  TPT_EXPECT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace triplepoint
