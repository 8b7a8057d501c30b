// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/launch_shape.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::perf {
namespace {

using spec::OpClass;

/// One launch.
struct Grid {
  double blocks = 1, threads = 1;
  bool shares_units = false;  // several of its blocks fit into a unit
};

Grid attention_grid(const spec::KernelCoefficients& kernels, const spec::Op& op) {
  const spec::AttentionShape& shape = op.attention;
  const double rows = static_cast<double>(op.backward ? shape.key_length : shape.query_length);
  const double of_a_head = std::ceil(rows / static_cast<double>(kernels.attention_tile));
  return {static_cast<double>(shape.batch * shape.heads) * of_a_head,
          static_cast<double>(kernels.attention_threads)};
}

Grid collective_grid(const spec::KernelCoefficients& kernels, spec::Collective collective) {
  const bool messages =
      collective == spec::Collective::send_recv || collective == spec::Collective::all_to_all;
  return {static_cast<double>(messages ? kernels.point_to_point_blocks : kernels.collective_blocks),
          static_cast<double>(kernels.collective_threads)};
}

Grid grid_of(const spec::Gpu& gpu, const spec::Op& op, double launches) {
  const spec::KernelCoefficients& kernels = gpu.kernels;
  switch (op.op_class) {
    case OpClass::gemm:
    case OpClass::grouped_gemm:
      return {gemm_blocks(gpu, shape_of_one_launch(op), op.precision),
              static_cast<double>(kernels.gemm_threads)};
    case OpClass::attention:
      return attention_grid(kernels, op);
    case OpClass::communication:
      return collective_grid(kernels, op.collective);
    default:
      return {std::ceil(op.hbm_bytes / launches / kernels.stream_block),
              static_cast<double>(kernels.stream_threads), true};
  }
}

bool knows_launches(const spec::Gpu& gpu) {
  const spec::KernelCoefficients& kernels = gpu.kernels;
  const auto threads = {kernels.unit_threads, kernels.gemm_threads, kernels.attention_threads,
                        kernels.stream_threads, kernels.collective_threads};
  return (gpu.vendor == "nvidia" || gpu.vendor == "amd") && gpu.compute_units.value_or(0) > 0 &&
         kernels.stream_block > Bytes() && kernels.attention_tile > 0 &&
         std::ranges::all_of(threads, [](int64_t count) { return count > 0; });
}

double threads_of_warp(const spec::Gpu& gpu) {
  return gpu.vendor == "amd" ? 64 : 32;
}

}  // namespace

std::optional<LaunchShape> launch_shape(const spec::Gpu& gpu, const spec::Op& op) {
  if (!knows_launches(gpu)) return std::nullopt;
  const double launches = std::max(1, op.kernels);
  Grid grid = grid_of(gpu, op, launches);
  grid.blocks = std::max(1.0, grid.blocks);
  const auto unit_threads = static_cast<double>(gpu.kernels.unit_threads);
  const double at_once = grid.shares_units ? std::floor(unit_threads / grid.threads) : 1;
  const double resident = std::min(at_once, grid.blocks / static_cast<double>(*gpu.compute_units));
  return LaunchShape{
      .launches = launches,
      .blocks = launches * grid.blocks,
      .warps = launches * grid.blocks * std::ceil(grid.threads / threads_of_warp(gpu)),
      .occupancy = resident * grid.threads / unit_threads};
}

}  // namespace triplepoint::perf
