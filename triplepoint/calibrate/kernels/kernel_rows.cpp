// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernels/kernel_rows.h"

#include <algorithm>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/calibrate/tables/calibration_file.h"

namespace triplepoint::calibrate {
namespace {

void set_gemm(spec::Op& op, const Cells& cells) {
  op.op_class = spec::OpClass::gemm;
  op.gemm = {.m = cells.count("m"),
             .n = cells.count("n"),
             .k = cells.count("k"),
             .count = std::max<int64_t>(1, cells.count("batch"))};
  const auto m = as_real(op.gemm.m), n = as_real(op.gemm.n), k = as_real(op.gemm.k),
             count = as_real(op.gemm.count);
  op.flops = 2 * m * n * k * count * unit::FLOP;
  op.hbm_bytes =
      (cells.number_or("operand_bytes", 2) * (m * k + k * n) + 2 * m * n) * count * unit::B;
}

void set_attention(spec::Op& op, const Cells& cells) {
  op.op_class = spec::OpClass::attention;
  op.backward = cells.text("pass") == "backward";
  op.attention = {.batch = cells.count("batch"),
                  .heads = cells.count("heads"),
                  .query_groups = cells.count("kv_heads"),
                  .query_length = cells.count("seq"),
                  .key_length = cells.count("seq"),
                  .head_dim = cells.count("head_dim"),
                  .causal = cells.text("causal") != "false"};
  const spec::AttentionShape& shape = op.attention;
  const double tokens = as_real(shape.batch * shape.query_length), keys = as_real(shape.key_length),
               d = as_real(shape.head_dim), heads = as_real(shape.heads),
               groups = as_real(shape.query_groups);
  op.flops = (op.backward ? 2.5 : 1) * 4 * (shape.causal ? 0.5 : 1) * tokens * keys * heads * d *
             unit::FLOP;
  op.hbm_bytes = (op.backward ? 2 : 1) * 2 * tokens * d * (2 * heads + 2 * groups) * unit::B;
}

void set_power(KernelRow& row, const Cells& cells) {
  const auto power = cells.number("power_w"), limit = cells.number("power_limit_w");
  if (power) row.repetition = Repetition::looped;
  if (power && limit && *limit > 0) row.power_share = *power / *limit;
}

Seconds measured_time(const Cells& cells, const spec::Op& op) {
  if (const auto us = cells.number("latency_us")) return *us * unit::us;
  const double rate = cells.number_or("tflops", 0);
  return rate > 0 ? op.flops / (rate * (unit::TFLOP / unit::s)) : Seconds();
}

constexpr std::string_view any_stated = "*";

bool fits(const KernelRow& row, const KernelBenchmark& benchmark) {
  const auto agrees = [](const std::string& asked, const std::string& given) {
    return asked.empty() || asked == given || (asked == any_stated && !given.empty());
  };
  const spec::AttentionShape& shape = row.op.attention;
  return agrees(benchmark.gpu, row.gpu) && agrees(benchmark.source, row.source) &&
         agrees(benchmark.dtype, row.dtype) &&
         (!benchmark.grouped_heads ||
          (row.op.op_class == spec::OpClass::attention &&
           *benchmark.grouped_heads == (shape.query_groups < shape.heads)));
}

}  // namespace

Result<KernelRow> read_kernel_row(const Cells& cells) {
  KernelRow row{.row_id = cells.id(),
                .family = cells.family(),
                .gpu = cells.text("gpu"),
                .dtype = cells.text("dtype"),
                .source = cells.text("kernel_source"),
                .best_of_many = cells.text("best_shape") == "true"};
  const auto precision = spec::enum_from_name<spec::Precision>(cells.text("precision"));
  if (!precision)
    return error("precision '{}' is not known (it decides which units multiply)",
                 cells.text("precision"));
  row.op.precision = *precision;
  cells.text("kind") == "attention" ? set_attention(row.op, cells) : set_gemm(row.op, cells);
  if (row.op.flops <= Flops()) return error("the sizes of the kernel are not stated");
  row.measured = measured_time(cells, row.op);
  if (row.measured <= Seconds()) return error("no latency or rate is stated");
  set_power(row, cells);
  return row;
}

Result<std::vector<KernelBenchmark>> load_benchmarks(const spec::Library& library) {
  constexpr const char* file = "benchmarks.toml";
  if (!path_exists(library.root + "/calibrations/" + file)) return std::vector<KernelBenchmark>();
  return read_calibration<std::vector<KernelBenchmark>>(library, file, "benchmark");
}

KernelBenchmark benchmark_of(const KernelRow& row, const std::vector<KernelBenchmark>& known) {
  for (const KernelBenchmark& benchmark : known)
    if (fits(row, benchmark)) return benchmark;
  return {};
}

spec::Gpu with_library_of(spec::Gpu gpu, const KernelBenchmark& benchmark) {
  if (gpu.power)
    gpu.power->joules_per_tflop[as_size(spec::OpClass::gemm)] *= benchmark.energy_share;
  spec::KernelCoefficients& kernels = gpu.kernels;
  if (benchmark.gemm_share) {
    kernels.gemm_fp8_share = *benchmark.gemm_share;
    kernels.gemm_mxfp8_share = kernels.gemm_fp4_share = benchmark.gemm_share;
    if (benchmark.dtype == "bfloat16") kernels.gemm_peak_share = *benchmark.gemm_share;
  }
  if (benchmark.attention_share) kernels.attention_forward_share = *benchmark.attention_share;
  if (benchmark.attention_half_length)
    kernels.attention_half_length = *benchmark.attention_half_length;
  if (benchmark.attention_half_head_dim)
    kernels.attention_half_head_dim = *benchmark.attention_half_head_dim;
  return gpu;
}

}  // namespace triplepoint::calibrate
