// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernel_tables.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/calibrate/kernel_fit.h"
#include "triplepoint/calibrate/machine_names.h"
#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

constexpr const char* gemm_header =
    "system,kernel_source,dtype,m,n,k,latency_ms,power_w,power_limit_w\n";

KernelRow only_row(const std::string& csv) {
  const auto rows = read_kernel_rows(parsed(csv));
  REQUIRE(rows);
  REQUIRE(rows->rows.size() == 1);
  return rows->rows[0];
}

spec::Gpu gpu(const char* name) {
  return spec::load_gpu(spec::default_library(), name).value();
}

TEST_CASE("GPUs are found under the names that people give them") {
  CHECK(gpu_named("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(gpu_named("h200_sxm") == "h200");
  CHECK(gpu_named("A100-SXM4-40GB") == "a100-40gb");
  CHECK(gpu_named("A100 (not stated in the file)") == "a100-80gb");
  CHECK(gpu_named("GB200") == "gb200");
  CHECK(gpu_named("AMD Instinct MI300X") == "mi300x");
  CHECK(gpu_named("abacus") == std::nullopt);
}

TEST_CASE("a row of products becomes an op with its flops and bytes") {
  const KernelRow row =
      only_row(std::string(gemm_header) + "h100_sxm,torch_flow,bfloat16,512,1024,2048,0.1,,\n");
  CHECK(row.gpu == "h100");
  CHECK(row.family == "gemm h100 bfloat16");
  CHECK(row.op.flops / unit::FLOP == 2.0 * 512 * 1024 * 2048);
  CHECK(row.op.hbm_bytes / unit::B == 2.0 * (512 * 2048 + 2048 * 1024 + 512 * 1024));
  CHECK(row.measured / unit::us == Approx(100));
  CHECK(row.repetition == Repetition::burst);
}

TEST_CASE("a row with a power reading was looped") {
  const KernelRow row = only_row(std::string(gemm_header) +
                                 "h200_sxm,vllm_default,bfloat16,512,1024,2048,0.1,350,700\n");
  CHECK(row.repetition == Repetition::looped);
  CHECK(row.power_share == Approx(0.5));
}

TEST_CASE("rows that say too little are skipped with a reason") {
  const auto rows = read_kernel_rows(
      parsed(std::string(gemm_header) + "h100_sxm,,bfloat16,512,,2048,0.1,,\n" +
             "abacus,,bfloat16,512,512,512,0.1,,\nh100_sxm,,posit8,512,512,512,0.1,,\n" +
             "h100_sxm,,bfloat16,512,512,512,,,\n"));
  REQUIRE(rows);
  CHECK(rows->rows.empty());
  REQUIRE(rows->skipped.size() == 4);
  CHECK(rows->skipped[0].reason == "m, n or k is not stated");
  CHECK(rows->skipped[1].reason == "no GPU of the library is named in 'abacus'");
  CHECK(rows->skipped[2].reason == "the number format 'posit8' is not known");
  CHECK(rows->skipped[3].reason == "no latency or rate is stated");
}

TEST_CASE("a table of something else is refused") {
  const auto rows = read_kernel_rows(parsed("apples,pears\n1,2\n"));
  REQUIRE_FALSE(rows);
  CHECK(rows.error().what.find("no table of kernels") != std::string::npos);
}

TEST_CASE("backward attention has two and a half times the flops of forward") {
  const std::string header =
      "system,dtype,batch,seq,heads,kv_heads,head_dim,causal,pass,latency_ms\n";
  const KernelRow forward = only_row(header + "h100_sxm,bfloat16,1,4096,16,4,128,yes,fwd,1\n");
  const KernelRow backward = only_row(header + "h100_sxm,bfloat16,1,4096,16,4,128,yes,bwd,1\n");
  const KernelRow full = only_row(header + "h100_sxm,bfloat16,1,4096,16,4,128,no,fwd,1\n");
  CHECK(backward.op.flops / forward.op.flops == Approx(2.5));
  CHECK(full.op.flops / forward.op.flops == Approx(2));
  CHECK(forward.op.attention.query_groups == 4);
}

TEST_CASE("a large looped product runs at the clock of the power limit, a burst at the highest") {
  const std::string shape = "bfloat16,8192,8192,8192,1.5,";
  const KernelRow looped =
      only_row(std::string(gemm_header) + "h200_sxm,other," + shape + "700,700\n");
  const KernelRow burst = only_row(std::string(gemm_header) + "h200_sxm,other," + shape + ",\n");
  const spec::Gpu h200 = gpu("h200");
  CHECK(sustained_clock_ratio(h200, looped.op) < 1);
  CHECK(predicted_time(h200, looped, {}) > predicted_time(h200, burst, {.launches = 1}));
  CHECK(predicted_time(h200, burst, {.launches = 1}) == perf::kernel_time(h200, burst.op).at(1));
}

TEST_CASE("a burst that lasts for ever is as slow as a loop") {
  const std::string shape = "h200_sxm,other,bfloat16,8192,8192,8192,1.5,";
  const KernelRow burst = only_row(std::string(gemm_header) + shape + ",\n");
  const KernelRow looped = only_row(std::string(gemm_header) + shape + "700,700\n");
  const spec::Gpu h200 = gpu("h200");
  Seconds before;
  for (const double launches : {1.0, 30.0, 100.0, 1e3, 1e6}) {
    const Seconds time = predicted_time(h200, burst, {.launches = launches});
    CHECK(time >= before);
    before = time;
  }
  CHECK(before / predicted_time(h200, looped, {}) == Approx(1).epsilon(1e-4));
}

TEST_CASE("what a benchmark times besides the product is added, and its host sets a floor") {
  const KernelRow row =
      only_row(std::string(gemm_header) + "h100_sxm,other,fp8,4096,4096,4096,0.1,,\n");
  const spec::Gpu h100 = gpu("h100");
  const Seconds bare = predicted_time(h100, row, {.launches = 1});
  const Seconds cast =
      predicted_time(h100, row, {.cast_start = 5 * unit::us, .launches = 1}) - bare;
  CHECK(cast / unit::us == Approx(5));
  CHECK(predicted_time(h100, row, {.host_pace = 1 * unit::s, .launches = 1}) == 1 * unit::s);
}

TEST_CASE("the shipped benchmarks are read, and the most particular one counts") {
  const auto known = load_benchmarks(spec::default_library());
  REQUIRE_MESSAGE(known, known.error().what);
  KernelRow row;
  row.gpu = "b200";
  row.source = "vllm_default";
  row.dtype = "fp8_block";
  CHECK(benchmark_of(row, *known).host_pace > 100 * unit::us);
  row.dtype = "bfloat16";
  CHECK(benchmark_of(row, *known).host_pace == Seconds());
  row.gpu = "mi300x";
  row.source = "something new";
  CHECK(benchmark_of(row, *known) == KernelBenchmark{});
}

TEST_CASE("a fit finds the coefficients that rows were made with") {
  spec::Gpu h100 = gpu("h100");
  h100.kernels.gemm_peak_share = 1.0;
  std::vector<KernelRow> rows;
  for (const int64_t m : {512, 1024, 2048, 3000})
    for (const int64_t n : {1024, 2560, 4096})
      for (const int64_t k : {1024, 3072, 8192}) {
        KernelRow row = only_row(std::string(gemm_header) +
                                 fmt::format("h100_sxm,x,bfloat16,{},{},{},1,,\n", m, n, k));
        row.measured = predicted_time(h100, row, {.launches = 1});
        row.repetition = Repetition::burst;
        rows.push_back(row);
      }
  const auto fit = fit_kernels(rows, spec::default_library(), "h100");
  REQUIRE_MESSAGE(fit, fit.error().what);
  REQUIRE(fit->classes.size() == 1);
  CHECK(fit->classes[0].name == "gemm_16bit");
  CHECK(fit->classes[0].small.median_pct < 1);
  CHECK(fit->classes[0].held_out_small.median_pct < 2);
}

TEST_CASE("a fit without rows of the GPU is refused") {
  const auto fit = fit_kernels({}, spec::default_library(), "h100");
  REQUIRE_FALSE(fit);
  CHECK(fit.error().what.find("no kernel of h100") != std::string::npos);
}

TEST_CASE("a sibling takes fitted shares and keeps what is its own") {
  const auto text = sibling_toml({.gpu = "gb300",
                                  .like = "b200",
                                  .peak_share = 0.5,
                                  .reason = "a test",
                                  .keep = {"attention_half_head_dim"}},
                                 spec::default_library());
  REQUIRE_MESSAGE(text, text.error().what);
  const auto line = [](const char* key, double value) {
    return fmt::format("\n{} = {}\n", key, std::round(value * 1e4) / 1e4);
  };
  CHECK(text->find(line("gemm_peak_share", gpu("b200").kernels.gemm_peak_share / 2)) !=
        std::string::npos);
  CHECK(text->find(line("attention_half_head_dim", gpu("gb300").kernels.attention_half_head_dim)) !=
        std::string::npos);
}

/// Median error of the rows of one family, in percent.
double median_error(const TableScores& scores, const std::string& family) {
  std::vector<double> errors;
  for (const ScoredRow& row : scores.scored)
    if (row.family == family) errors.push_back(std::abs(row.error_pct()));
  REQUIRE_MESSAGE(errors.size() > 20, family);
  return upper_median(std::move(errors));
}

std::optional<CsvTable> published(const std::string& name) {
  auto text = read_file(Path(TPT_SHARED_DIR) / "data" / name);
  if (text) return CsvTable::parse(*std::move(text), name).value();
  MESSAGE("skipped: no ../shared/data/" << name);
  return std::nullopt;
}

TEST_CASE("published GEMM tables are met: 5 % median for large ones, 12 % for small") {
  const auto table = published("gemm_power.csv");
  if (!table) return;
  const auto scores = score_gemm_table(*table, spec::default_library());
  REQUIRE_MESSAGE(scores, scores.error().what);
  for (const char* family :
       {"gemm a100-80gb bfloat16", "gemm h100 bfloat16", "gemm h200 bfloat16", "gemm b200 bfloat16",
        "gemm h100 fp8", "gemm h100 fp8_block", "gemm h200 fp8_block"}) {
    CAPTURE(family);
    CHECK(median_error(*scores, std::string(family) + "/large") < 5);
    CHECK(median_error(*scores, std::string(family) + "/small") < 12);
  }
}

TEST_CASE("the shipped products of an A100 are what the fit gives") {
  std::vector<KernelRow> rows;
  for (const char* name : {"gemm_power.csv", "kernels_calibration.csv"}) {
    const auto table = published(name);
    if (!table) return;
    const KernelRows read = read_kernel_rows(*table).value();
    rows.insert(rows.end(), read.rows.begin(), read.rows.end());
  }
  const auto fit = fit_kernels(rows, spec::default_library(), "a100-80gb");
  REQUIRE_MESSAGE(fit, fit.error().what);
  const spec::KernelCoefficients shipped = gpu("a100-80gb").kernels;
  CHECK(shipped.gemm_peak_share == Approx(fit->kernels.gemm_peak_share).epsilon(0.01));
  CHECK(shipped.gemm_half_k == Approx(fit->kernels.gemm_half_k).epsilon(0.01));
  CHECK(shipped.gemm_half_tile == Approx(fit->kernels.gemm_half_tile).epsilon(0.01));
  CHECK(shipped.kernel_start / fit->kernels.kernel_start == Approx(1).epsilon(0.01));
}

TEST_CASE("the published attention table is met: 6 % median") {
  const auto table = published("attention_power.csv");
  if (!table) return;
  const auto scores = score_attention_table(*table, spec::default_library());
  REQUIRE_MESSAGE(scores, scores.error().what);
  CHECK(median_error(*scores, "attention b200 bfloat16/large") < 6);
  CHECK(median_error(*scores, "attention b200 bfloat16/small") < 6);
}

TEST_CASE(
    "FlashAttention-3's figures are met: 6 % median in 16 bits, 12 % in 8, which no fit saw") {
  const std::string path = spec::default_library().root + "/calibrations/attention_h100.csv";
  const CsvTable table = CsvTable::parse(read_file(path).value(), path).value();
  const auto scores = score_attention_table(table, spec::default_library());
  REQUIRE_MESSAGE(scores, scores.error().what);
  CHECK(median_error(*scores, "attention h100 bfloat16/large") < 6);
  CHECK(median_error(*scores, "attention h100 fp8/large") < 12);
}

}  // namespace
}  // namespace triplepoint::calibrate
