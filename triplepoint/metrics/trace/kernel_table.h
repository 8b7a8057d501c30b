// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// Kernels and copies that share a name (or a label, see label_of), over the ranks asked for.
struct KernelRow {
  std::string_view label, name;  // name is empty in a table by label
  int64_t count = 0;
  int64_t total = 0, shortest = 0, longest = 0;  // ns
  // Of the spans of which the trace knows a grid:
  int64_t with_grid = 0;
  int64_t blocks = 0, warps = 0;
  std::optional<double> occupancy;  // per cent, weighted by time; nothing where no span knows it
};
enum class KernelTableBy { label, name };

/// Longest total first; equal ones by label and name. `rank`: -1 for all. `warp_size`: threads of a
/// warp, 32 on NVIDIA, 64 on AMD; a block's last warp counts whole. The timeline has no instances.
std::vector<KernelRow> kernel_table(const run::Timeline&, KernelTableBy, int32_t rank = -1,
                                    int32_t warp_size = 32);

}  // namespace triplepoint::metrics
