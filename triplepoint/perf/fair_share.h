// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::perf {

/// A flow crosses these links (indices into the capacities); it may be limited by itself as well.
/// A link that is named twice is crossed twice.
struct Flow {
  std::vector<int32_t> links;
  BytesPerSecond own_limit;  // zero: none
};

/// Max-min fair rates of all flows: raise all alike, freeze those at a full link, go on (water
/// filling). No flow can go faster without slowing down one that is not faster.
///
///   level at which link l fills = (capacity - rates of its frozen flows) / its other flows
///
/// A flow without links and without a limit is infinitely fast. O((flows * links of a flow + links)
/// log links). Source: Bertsekas & Gallager, Data Networks, 6.5.2.
std::vector<BytesPerSecond> fair_rates(std::span<const Flow> flows,
                                       std::span<const BytesPerSecond> capacities);

/// Memory that fair_rates works in; keep one per thread and no call allocates once it has grown.
struct FairShareScratch {
  struct Link {
    double free;                  // capacity without the frozen flows
    int32_t open = 0;             // flows not yet frozen, counted by crossing
    int32_t first = 0, last = 0;  // of `crossings`
  };
  std::vector<Link> links;
  std::vector<int32_t> crossings;                  // flows, by link
  std::vector<std::pair<double, int32_t>> fills;   // heap of (level, link)
  std::vector<std::pair<double, int32_t>> limits;  // (own limit, flow), ascending
  std::vector<char> frozen;
};

/// The same into `rates` (as many as flows).
void fair_rates(std::span<const Flow> flows, std::span<const BytesPerSecond> capacities,
                FairShareScratch& scratch, std::span<BytesPerSecond> rates);

}  // namespace triplepoint::perf
