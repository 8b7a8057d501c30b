// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power_tables.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "triplepoint/calibrate/kernel_tables.h"
#include "triplepoint/calibrate/power_loads.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/power/gpu_power.h"

namespace triplepoint::calibrate {
namespace {

std::string missing_for(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.peak(op.precision) || !gpu.hbm_bandwidth || !gpu.compute_units)
    return fmt::format("peak, memory bandwidth or compute units of {} are not known", gpu.name);
  if (!gpu.power || !gpu.governor || !gpu.max_clock || !gpu.tdp)
    return fmt::format("{} has no power model", gpu.name);
  return {};
}

Watts predicted_power(const spec::Gpu& gpu, const spec::Op& op) {
  const double ratio = sustained_clock_ratio(gpu, op);
  const spec::GpuLoad load = looped_load(op, perf::kernel_time(gpu, op).at(ratio));
  return power::gpu_power(*gpu.power, load, ratio, benchmark_die, {});
}

ScoredRow scored(const KernelRow& row, const spec::Gpu& gpu) {
  constexpr Seconds large = 100 * unit::us;
  return {.row_id = row.row_id,
          .family = "power " + row.family + (row.measured >= large ? "/large" : "/small"),
          .quantity = "power_w",
          .sweep = {},
          .measured = row.power_share * (*gpu.tdp / unit::W),
          .predicted = predicted_power(gpu, row.op) / unit::W,
          .notes = {}};
}

}  // namespace

bool is_kernel_power_table(const Header& header) {
  const bool kernels =
      is_gemm_table(header) || is_attention_table(header) || is_kernels_table(header);
  return kernels && std::find(header.begin(), header.end(), "power_w") != header.end();
}

Result<TableScores> score_kernel_power_table(const CsvTable& table, const spec::Library& library) {
  KernelRows rows = TPT_TRY(read_kernel_rows(table));
  TableScores scores{.table = "kernel power", .rows = static_cast<int64_t>(table.rows())};
  scores.skipped = std::move(rows.skipped);
  GpuShelf shelf(library);
  for (const KernelRow& row : rows.rows) {
    if (row.power_share <= 0) {
      scores.skipped.push_back({row.row_id, "no power is stated"});
      continue;
    }
    const Result<spec::Gpu>& gpu = shelf.gpu(row.gpu);
    const std::string reason = gpu ? missing_for(*gpu, row.op) : gpu.error().what;
    if (reason.empty())
      scores.scored.push_back(scored(row, *gpu));
    else
      scores.skipped.push_back({row.row_id, reason});
  }
  return scores;
}

}  // namespace triplepoint::calibrate
