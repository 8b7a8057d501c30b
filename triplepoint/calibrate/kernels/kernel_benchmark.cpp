// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernels/kernel_benchmark.h"

#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::calibrate {
namespace {

using spec::TomlValue;

std::string text_of(const TomlValue& table, const char* key) {
  const TomlValue* found = table.find(key);
  return found == nullptr ? std::string() : found->text;
}

std::optional<double> number_of(const TomlValue& table, const char* key) {
  const TomlValue* found = table.find(key);
  if (found == nullptr) return std::nullopt;
  return found->is(TomlValue::Kind::integer) ? static_cast<double>(found->integer) : found->number;
}

Result<Seconds> time_of(const TomlValue& table, const char* key) {
  const std::string text = text_of(table, key);
  if (text.empty()) return Seconds();
  return parse_quantity<Seconds>(text);
}

Result<KernelBenchmark> read_benchmark(const TomlValue& table) {
  const KernelBenchmark usual;
  KernelBenchmark read{.gpu = text_of(table, "gpu"),
                       .source = text_of(table, "source"),
                       .dtype = text_of(table, "dtype"),
                       .cast_bytes = number_of(table, "cast_bytes").value_or(0),
                       .cast_start = TPT_TRY(time_of(table, "cast_start")),
                       .host_pace = TPT_TRY(time_of(table, "host_pace")),
                       .launches = number_of(table, "launches").value_or(usual.launches)};
  if (const TomlValue* grouped = table.find("grouped_heads")) read.grouped_heads = grouped->truth;
  read.energy_share = number_of(table, "energy_share").value_or(usual.energy_share);
  read.gemm_share = number_of(table, "gemm_share");
  read.attention_share = number_of(table, "attention_share");
  read.attention_half_length = number_of(table, "attention_half_length");
  read.attention_half_head_dim = number_of(table, "attention_half_head_dim");
  return read;
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

Result<std::vector<KernelBenchmark>> load_benchmarks(const spec::Library& library) {
  const std::string path = library.root + "/calibrations/benchmarks.toml";
  std::vector<KernelBenchmark> benchmarks;
  if (!std::filesystem::exists(path)) return benchmarks;
  const std::string text = TPT_TRY(read_file(path));
  const TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  const TomlValue* list = root.find("benchmark");
  if (list == nullptr) return benchmarks;
  for (const TomlValue& item : list->items)
    benchmarks.push_back(TPT_TRY(read_benchmark(item)));
  return benchmarks;
}

KernelBenchmark benchmark_of(const KernelRow& row, const std::vector<KernelBenchmark>& known) {
  for (const KernelBenchmark& benchmark : known)
    if (fits(row, benchmark)) return benchmark;
  return {};
}

spec::Gpu with_library_of(spec::Gpu gpu, const KernelBenchmark& benchmark) {
  if (gpu.power)
    gpu.power->joules_per_tflop[static_cast<size_t>(spec::OpClass::gemm)] *= benchmark.energy_share;
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
