// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace triplepoint::metrics {

/// Sets of ranks whose clocks can be compared, and the comparison checked: by rank, the lowest rank
/// of its set.
///
/// One collective between two sets of ranks fits any offset of their clocks, with a residual of
/// zero. So two ranks are of one set where chains of collectives connect them in two ways: ranks
/// and collectives are the vertices of a graph, a kernel is an edge between its rank and its
/// collective, and a set is what stays connected whichever edge is removed. `met`: the ranks of
/// each collective.
std::map<int32_t, int32_t> clock_sets(const std::vector<std::vector<int32_t>>& met);

}  // namespace triplepoint::metrics
