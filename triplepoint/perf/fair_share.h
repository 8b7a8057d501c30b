// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::perf {

/// A flow crosses these links (indices into the capacities); it may be limited by itself as well.
struct Flow {
  std::vector<int32_t> links;
  BytesPerSecond own_limit;  // zero: none
};

/// Max-min fair rates of all flows: raise all alike, freeze those at a full link, go on (water filling).
/// O(rounds * (flows + links)). Source: Bertsekas & Gallager, Data Networks, 6.5.2.
std::vector<BytesPerSecond> fair_rates(std::span<const Flow> flows,
                                       std::span<const BytesPerSecond> capacities);

}  // namespace triplepoint::perf
