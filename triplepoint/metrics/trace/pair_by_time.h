// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace triplepoint::metrics {

/// A rank's kernel of a collective that its trace does not number.
struct UnnumberedKernel {
  int32_t span = 0;
  int64_t begin = 0, end = 0;  // ns
  std::string_view label;
  int64_t elements = -1;  // -1: unknown
};

struct PairedKernels {
  std::vector<std::vector<int32_t>> collectives;  // spans, in the order that all ranks share
  int64_t matched = 0;                            // spans with one of another rank
  bool by_given_clocks = true;                    // else a rank's clock had to be moved for it
  // A rank of which the ends allow two offsets of its clock (ns), so its pairs are not known.
  struct Doubt {
    int32_t rank = 0;
    int64_t offset = 0, other = 0;
  };
  std::optional<Doubt> doubt;
};

/// Pairs the kernels of one communicator, by rank in order of launch, where records are missing.
///
/// A missing record shifts the count of all that follow, so the n-th kernels do not belong together
/// and offsets of clocks fitted to them are off by a step. What stays is that a collective ends on
/// all ranks at once. Rank by rank the constant offset is taken under which most kernels of one
/// label end together, within half the shorter kernel, sizes as a second vote; candidates are the
/// clocks as given and the median difference of ends at each shift of the count. Where two are
/// equally good the clocks as given hold; where neither is these, the doubt is told.
///
/// Cost: kernels times shifts (at most 37).
PairedKernels pair_by_time(const std::map<int32_t, std::vector<UnnumberedKernel>>& ranks);

}  // namespace triplepoint::metrics
