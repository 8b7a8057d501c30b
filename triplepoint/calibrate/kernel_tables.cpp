// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernel_tables.h"

#include <map>

#include <fmt/format.h>

#include "triplepoint/calibrate/collective_tables.h"
#include "triplepoint/clock/governor.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/power/gpu_power.h"

namespace triplepoint::calibrate {
namespace {

constexpr Celsius benchmark_die{60};

spec::GpuLoad load_of(const spec::Op& op, Seconds duration) {
  spec::GpuLoad load;
  load.duration = duration;
  load.flops[static_cast<size_t>(op.op_class)] = op.flops;
  if (op.precision == spec::Precision::nvfp4)
    load.fp4_flops = op.flops;
  else if (spec::is_quantized(op.precision))
    load.fp8_flops = op.flops;
  load.hbm_bytes = op.hbm_bytes;
  load.computing = duration;
  return load;
}

/// Loaded once each, in the order of first use.
class Shelf {
 public:
  explicit Shelf(const spec::Library& library) : library_(library) {}
  const Result<spec::Gpu>& gpu(const std::string& name) {
    auto found = gpus_.find(name);
    if (found == gpus_.end()) found = gpus_.emplace(name, spec::load_gpu(library_, name)).first;
    return found->second;
  }

 private:
  const spec::Library& library_;
  std::map<std::string, Result<spec::Gpu>> gpus_;
};

std::string missing_for(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.peak(op.precision))
    return fmt::format("the {} peak of {} is not known", spec::name_of(op.precision), gpu.name);
  if (!gpu.hbm_bandwidth || !gpu.compute_units)
    return fmt::format("the memory bandwidth or the compute units of {} are not known", gpu.name);
  return {};
}

ScoredRow scored(const KernelRow& row, Seconds predicted) {
  constexpr Seconds large = 100 * unit::us;
  ScoredRow score{.row_id = row.row_id,
                  .family = row.family + (row.measured >= large ? "/large" : "/small"),
                  .quantity = "latency_us",
                  .sweep = row.family,
                  .measured = row.measured / unit::us,
                  .predicted = predicted / unit::us,
                  .notes = row.notes};
  if (!row.best_of_many) return score;
  score.family = row.family;
  score.quantity = "tflops";
  score.measured = row.op.flops / row.measured / (unit::TFLOP / unit::s);
  score.predicted = row.op.flops / predicted / (unit::TFLOP / unit::s);
  return score;
}

TableScores score_rows(const KernelRows& rows, const spec::Library& library) {
  Shelf shelf(library);
  TableScores scores;
  scores.skipped = rows.skipped;
  for (const KernelRow& row : rows.rows) {
    const Result<spec::Gpu>& gpu = shelf.gpu(row.gpu);
    const std::string reason = gpu ? missing_for(*gpu, row.op) : gpu.error().what;
    if (!reason.empty())
      scores.skipped.push_back({row.row_id, reason});
    else
      scores.scored.push_back(scored(row, predicted_time(*gpu, row)));
  }
  return scores;
}

Result<TableScores> score_kernels(const CsvTable& table, const spec::Library& library,
                                  std::string kind) {
  TableScores scores = score_rows(TPT_TRY(read_kernel_rows(table)), library);
  scores.table = std::move(kind);
  scores.rows = static_cast<int64_t>(table.rows());
  return scores;
}

}  // namespace

double sustained_clock_ratio(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.power || !gpu.governor || !gpu.max_clock || !gpu.tdp) return 1;
  const perf::KernelTime time = perf::kernel_time(gpu, op);
  const auto power_at = [&](double ratio) {
    return power::gpu_power(*gpu.power, load_of(op, time.at(ratio)), ratio, benchmark_die, {});
  };
  const auto choice =
      clock::choose_clock(*gpu.governor, *gpu.max_clock, *gpu.tdp, benchmark_die, power_at);
  return choice.clock / *gpu.max_clock;
}

Seconds predicted_time(const spec::Gpu& gpu, const KernelRow& row) {
  const double ratio =
      row.repetition == Repetition::looped ? sustained_clock_ratio(gpu, row.op) : 1;
  return perf::kernel_time(gpu, row.op).at(ratio);
}

Result<TableScores> score_gemm_table(const CsvTable& table, const spec::Library& library) {
  return score_kernels(table, library, "gemm");
}

Result<TableScores> score_attention_table(const CsvTable& table, const spec::Library& library) {
  return score_kernels(table, library, "attention");
}

Result<TableScores> score_kernels_table(const CsvTable& table, const spec::Library& library) {
  TableScores scores = TPT_TRY(score_kernels(table, library, "kernels"));
  TableScores links = TPT_TRY(score_collective_table(table, library));
  scores.scored.insert(scores.scored.end(), links.scored.begin(), links.scored.end());
  scores.skipped.insert(scores.skipped.end(), links.skipped.begin(), links.skipped.end());
  return scores;
}

}  // namespace triplepoint::calibrate
