// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/statistics.h"

namespace triplepoint {

std::optional<RankSpread> spread_of(std::vector<RankValue> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::stable_sort(values, [](const RankValue& a, const RankValue& b) {
    return std::pair(a.value, a.rank) < std::pair(b.value, b.rank);
  });
  const RankValue& low = values.front();
  const RankValue& middle = values[(values.size() - 1) / 2];
  const RankValue& high = *std::ranges::find(values, values.back().value, &RankValue::value);
  return RankSpread{low.value, middle.value, high.value, low.rank, middle.rank, high.rank};
}

}  // namespace triplepoint
