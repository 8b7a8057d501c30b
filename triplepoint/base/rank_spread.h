// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace triplepoint {

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
