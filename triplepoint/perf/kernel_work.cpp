// SPDX-License-Identifier: Apache-2.0
// Flops by which a kernel's energy counts, where they are not those of its result.
//
// Tensor cores multiply whole tiles, so rows of padding take energy, too. Half of them is counted:
// (rows + tile) / 2 rows in all. Attention counts the flops that the peak would deliver in its
// compute time, because exponentials, masks and blocks that are not full take energy as they take
// time. Source: docs/models/power.md.
#include "triplepoint/perf/kernel_work.h"

#include <algorithm>

#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::perf {
namespace {

constexpr int64_t rows_of_a_tile = 128;

/// Energy of a tile with few rows over that of as many rows of a full one.
double padding(const spec::Gpu& gpu, int64_t rows) {
  const int64_t tile = std::min(rows_of_a_tile, gpu.kernels.tile_m);
  if (rows <= 0 || rows >= tile) return 1;
  return 0.5 * (1 + static_cast<double>(tile) / static_cast<double>(rows));
}

/// One query a sequence: the heads that share keys and values are the rows.
bool is_lone_query(const spec::AttentionShape& shape) {
  return shape.query_length == 1 && !shape.causal && shape.query_groups > 0;
}

}  // namespace

Flops energy_flops(const spec::Gpu& gpu, const spec::Op& op) {
  const bool product =
      op.op_class == spec::OpClass::gemm || op.op_class == spec::OpClass::grouped_gemm;
  if (product && !op.backward) return padding(gpu, op.gemm.m) * op.flops;
  if (op.op_class != spec::OpClass::attention) return op.flops;
  if (is_lone_query(op.attention))
    return padding(gpu, op.attention.heads / op.attention.query_groups) * op.flops;
  return *gpu.peak(rated_precision(op)) * kernel_time(gpu, op).compute;
}

}  // namespace triplepoint::perf
